// Package bench measures the timer service from outside, with everything real:
// a broker process, the service as its users run it, a producer and a consumer,
// all on this machine.
//
//	producer ──commands──► broker ◄──► service ◄──► database
//	                         └──events──► consumer ──► rates, lateness
//
// [Drain] has many timers fall due at one instant, [Steady] keeps a rate, and
// [Fairness] has small tenants next to a large one. [Native] gives the
// broker's own scheduler the work of [Drain], and [River] a queue on PostgreSQL.
// [Compare] measures several in turns, and [CompareResults] says which is faster.
// Each workload checks that every timer fired once and not early, and reports an
// error if not: a fast service that loses timers is not fast.
package bench
