// Package timertest runs the whole timer service on fake time, for tests of code
// that uses it: hours pass at once, the service crashes, the broker is down.
//
//	synctest.Test(t, func(t *testing.T) {
//		svc := timertest.Start(t) // or timertest.Start(t, timertest.NATS())
//		shop := newShop(svc.Client(), svc.Broker())
//		shop.Order("order-1") // schedules a timer, three hours from now
//		svc.AwaitIdle()
//		svc.Crash()
//		time.Sleep(4 * time.Hour) // no time at all
//		svc.Restart()
//		svc.AwaitIdle()
//		// the shop has canceled order-1
//	})
//
// It is the service that runs in production, with its handlers, its poller and its
// outbox, on a SQLite file. The broker is one in memory, or NATS with JetStream in
// this process; it outlives crashes of the service, and keeps commands meanwhile.
// Code without a broker gets its events by [OnDue], and one that shares its database
// with the service by [DB] and [BeforeStart]. Everything ends with the test.
//
// # Time
//
// [Start] returns at 2000-01-03T00:00:00Z in a bubble that has begun before. Time
// passes when all goroutines of the bubble wait: in a time.Sleep of the test, or a
// receive from [Service.Events]. Then the service polls every five seconds, as it
// does. In memory three hours take about 0.2 seconds of real time, with NATS a little
// more than one; with a longer PollingInterval ([Options]) they take less.
//
// # Traps of bubbles
//
//   - Make these inside of the bubble: a channel, a timer, a context
//     with a deadline, a *sql.DB, a client. A *sql.DB from outside may start a
//     goroutine inside, with which the bubble does not end, and a goroutine outside
//     that sends to a channel from inside panics.
//   - A bubble begins in the year 2000, and no timer may be due before. Start lets two
//     days pass, so a test may schedule timers that are overdue.
//   - A goroutine that waits for the network, for another process or for a mutex
//     stands still in real time, and so does the clock of the bubble. PostgreSQL,
//     Kafka and RabbitMQ are for tests without a bubble.
//   - A time.Sleep, a ticker or a timeout of other code is fake too. A loop that polls
//     for something that takes real time spends hours of fake time, and a timeout ends
//     at once.
//   - All goroutines of the bubble must end. They may wait for t.Context, which ends
//     before the service is stopped.
//   - A receive that no event ever ends lasts until the timeout of go test, since the
//     service lets time pass. [Service.AwaitIdle] and [Service.Fired] say at once that
//     there is none.
//   - A sync.Pool may hand over objects that were made in another bubble, such as the timers of
//     nats.go. [NATS] empties that pool at the end. It also begins the clock that
//     nats-server has for the whole process (its package ats) outside of the bubble,
//     so that no TestMain has to.
package timertest
