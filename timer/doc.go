// Package timer is the domain: what a timer is, what is asked of it, what it
// tells, and the ports through which the rest of the service reaches clocks
// and databases. It imports the standard library only.
//
// A timer belongs to a tenant and to one service call of that tenant, its
// [Key]. Commands change it, time completes it:
//
//	              ScheduleTimer, newer
//	                  ┌────────┐
//	 ScheduleTimer    │        ▼        now >= DueAt
//	────────────────► Scheduled ──────────────────────► Reached ──► DueTimeReached
//	                  │        ▲                        (final)
//	      CancelTimer │        │ ScheduleTimer, newer
//	                  ▼        │
//	────────────────► Canceled
//	 CancelTimer      (also a tombstone: the key may be unknown)
//
// # Versions
//
// Every command carries a [Version]. Of all commands for a key the newest
// wins, whatever the order of their arrival; older ones and repetitions change
// nothing. A timer that is Reached stays Reached.
//
// # Time
//
// All times are UTC and are kept to the millisecond. A due time is rounded up
// ([RoundUp]) and the clock is rounded down ([RoundDown]), so a timer is never
// early.
//
// # Errors
//
// There are two kinds, because there are two reactions: what wraps
// [ErrInvalid] can never succeed and becomes a dead letter; everything else
// may pass and is tried again. [ErrFatal] marks the few errors after which
// nothing may be accepted any more.
package timer
