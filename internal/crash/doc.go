// Package crash tries to make the timer service break its promise that nothing
// accepted is ever lost. It starts a broker and the service, sends commands at a
// steady rate, and meanwhile kills the service again and again, or stops it, or
// freezes it, or kills the broker, or both; see [Mode]. In the end it lets everything come to rest
// and judges what a client can see, see package history.
//
//	producer ──commands──► broker ◄──acks, events──► service ◄── strikes
//	    │                    │
//	    └──► recorder ◄── observer              check(recorder) ──► report
//
// The service is a black box: a binary, the environment it is configured by,
// and the wire contract. Nothing here imports its code, and what is judged is
// never read from its database. In the mode [Step] the binary is one that can be
// told to kill itself where its code has a name for the place.
package crash
