// Package ondue kills a program again and again that books orders and their timers in one
// transaction, and handles events straight from its own database (app.Timers.OnDue and
// OnDueTx). Every order must have its timers, and every timer its order; each event must be
// handled, and with OnDueTx exactly once.
//
//	go test ./verify/ondue -v -kills 500
package ondue
