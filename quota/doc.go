// Package quota says how much of the service a tenant may have, so that no
// tenant takes what the others need: how many timers may wait, how many
// commands are accepted and how many timers fire a second, and how far ahead a
// timer may be due.
//
// A [Book] holds the limits of all tenants: a default, and overrides. A
// [Keeper] keeps them: it is asked before a command goes to the store and
// before timers fire, and it is told what came of that. Its book can be changed
// while it works.
//
//	              Take, Admit                       Done
//	ScheduleTimer ───────────► Grant ──► store ─────────► counted
//	                   │                   └────────────► Failed: given back
//	                   └─────► Over ──► Delay: waits at the broker
//	                                └─► dead letter
//
//	due timers ──► Allowance ──► Reach ──► Fired
//
// # What is limited
//
// Accepted is a ScheduleTimer that the store applied, whatever it did to the
// timer. A CancelTimer is never limited, and the due time of a timer that waits
// can be changed while the tenant has as many as it may have: both make no
// timer more.
//
// A timer that is due while its tenant has fired as many as it may stays
// Scheduled until its turn comes. Nothing is ever dropped.
//
// # Several instances
//
// Each instance keeps an equal part of the rates. The timers that wait are
// counted in the store, which all instances share.
package quota
