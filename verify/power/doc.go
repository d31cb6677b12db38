// Package power takes the power away from the disk of the timer service, again
// and again while it works, and judges the results that a client can see. See package crash,
// which does the same to the process.
//
// The disk is ext4 in a file behind a loop device. A cut stops every process
// that has files on it, waits until each is seen stopped, shuts the file system
// down without writing its journal, kills the processes, and mounts the disk
// again, which replays the journal. Data that were neither synced nor written back
// before is gone. The kernel may write back anything at any time, so every other
// cut writes back pieces of files, in no order, before the disk dies.
//
//	        stop ──► shut down ──► kill ──► unmount ──► mount ──► start
//	service ·····│                                                │······
//	disk    ······────────│    unsynced data are gone    │···············
//
// The commands come from outside, and their acks are counted outside. Whatever
// left the service did so before it was stopped, so all of it is a promise.
//
// # Modes
//
// In the mode [crash.Power] the database alone is on the disk, and the broker
// outlives the cuts. In [crash.PowerEmbedded] the broker runs within the service,
// and its streams are on the disk too; then the broker's acks, and the messages
// that it delivered, are promises as well.
//
// With [Options].Relaxed the database loses its newest commits, and numbers with them. In
// [crash.Power] the next start reads from the broker the messages above these numbers, so nothing
// may be lost. In [crash.PowerEmbedded] the streams lose their ends, too, and what was acked
// in the last seconds is lost: there is no promise to judge.
//
// # What makes a run worth something
//
// First a control, [Control]: a program that writes records, syncs, and only then
// acks them must lose none, or the cuts break what no program can keep. One that
// does not sync must lose some, or the cuts do not bite.
//
// # Limits of a cut
//
// A disk that says it wrote what it did not: all that the kernel handed to the
// device counts as kept. And the middle of a sync: a thread stops when its call
// is over. Shutting the file system down under running processes would not do:
// ext4 lets a sync that is under way succeed though it kept nothing. The control
// that syncs lost its last record in 11 of 80 such cuts (Linux 6.18, November 2026).
package power
