// Package timer is the domain: timers, the commands that change them, the events
// that they cause, and the ports to clocks and databases. It imports the standard
// library only.
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
// A timer that is due when its ExpiresAt has come, too, becomes Expired instead of Reached:
// its event is a TimerExpired.
//
// # Versions
//
// Every command carries a [Version]. Of all commands for a key the newest
// wins, in any order of arrival; older ones and repetitions change nothing
// ([Status]). A timer that is Reached or Expired stays so.
//
// # Time
//
// All times are UTC and are kept to the millisecond. A due time is rounded up
// ([RoundUp]) and the clock is rounded down ([RoundDown]), so a timer is never
// early. The time when it expires is rounded up, too: it never expires early.
//
// # Errors
//
// There are two kinds, because there are two reactions: a message with an error
// that wraps [ErrInvalid] can never succeed and becomes a dead letter; after any
// other error it is retried. [ErrFatal] marks the few errors after which no
// command may be accepted any more.
package timer
