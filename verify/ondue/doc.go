// Package ondue kills a program in the middle of handling events that come straight
// from its own database (app.Timers.OnDue and OnDueTx), again and again, and checks
// that each event was handled: with OnDueTx exactly once.
//
// A second program books orders and their timers in one transaction, and is killed at
// random moments: every order must have its timer, and every timer its order.
//
//	go test ./verify/ondue -v -kills 500
package ondue
