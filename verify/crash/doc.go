// Package crash tries to make the timer service break its promise that nothing
// accepted is ever lost. It starts a broker and the service, sends commands at a
// steady rate, and meanwhile kills the service again and again, or stops it, or
// freezes it, or kills the broker, or both; see [Mode]. At the end it waits until all work is done
// and judges the results that a client can see, see package history.
//
//	producer ──commands──► broker ◄──acks, events──► service ◄── faults
//	    │                    │
//	    └──► recorder ◄── observer              check(recorder) ──► report
//
// The service is a black box: a binary, the environment it is configured by,
// and the wire contract. Nothing here imports its code, and the
// verdict is never read from its database. In the mode [Step] the binary is one that can be
// made to kill itself at a named step of its code. In [Power] and [PowerEmbedded] a
// disk loses its power under it, see package power.
package crash
