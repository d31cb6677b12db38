// Package history records the messages that a client of the timer service published and
// observed, and judges from that record alone whether the service kept its
// promises. It knows nothing of the service but the wire contract, and touches
// no network, no file and no clock.
//
// A [Recorder] collects; [Check] judges its records. Every rule is
// exact: it calls something wrong only if no order of crashes, redeliveries and
// delays could explain it.
//
// # What must happen
//
// The commands of a key are ordered by their [Version]. If the newest one that
// the broker acked is a ScheduleTimer, the key must have an event: of this
// version, or of an older one that was due before the newer one got through,
// since a timer that fired stays fired. If the newest one is a CancelTimer, the
// key may have an event of an older version, or none.
//
// # What must not happen
//
// An event that names no command, that is early, that is a second version of
// its key, or whose version was replaced in time. Replaced in time is known for
// certain: the recorder sees the service's own acks, and a command is acked
// only when its effect is durable. So once a newer command of the key is acked
// before a due time, that due time must not fire.
//
// A broker that loses everything takes with it the commands that the service had not acked:
// they may have taken effect or not. Commands that it had acked must take effect all the same.
//
// An event that comes again is no violation by itself: a process that is killed between
// the broker's answer and the commit that removes the event from the database publishes
// it again. That takes moments. If the broker had the event long before the kill,
// the next process must not publish it, even if its database was lost or is an older
// copy: the broker keeps the event, and the service has to look.
//
// # Which rule judges which promise
//
//	no accepted timer is lost        [Lost], [NoDeadLetter], [Refused]
//	never early                      [Early]
//	nothing twice without a fault    [Duplicate], [Repeated]
//	nothing again that has fired     [Refired]
//	one id, one content              [SecondID], [SharedID], [Changed]
//	no invention                     [Invented]
//	the newest version wins          [Superseded]
//	one version of a key fires       [TwoVersions]
//	tenants are apart                [WrongTopic]
//	a state never goes back          [TwoVersions] after reached, [Superseded] after canceled
//	events are as described          [Malformed]
//	the broker keeps acked messages  [Unstored], [Vanished]
//
// The other rules are about the process, and seen by the runs of it.
package history
