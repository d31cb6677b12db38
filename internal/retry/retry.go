// Package retry has the policies by which all parts of the service try again.
package retry

import (
	"math/rand/v2"
	"time"
)

// A Policy says how long to wait after each of several failures in a row.
type Policy struct {
	First   time.Duration // after the first failure
	Factor  int           // each delay is Factor times the previous one
	Longest time.Duration // longest delay
	Jitter  float64       // a delay is shorter by up to this part, so that failures of one moment are not tried again together
}

// The policies of the service.
var (
	// Handler is for a command that its handler could not apply. It is tried MaxTries
	// times while the broker waits for the ack, and then goes back to the broker. Watermill
	// applies this policy, and its jitter makes delays longer, too.
	Handler = Policy{First: 50 * time.Millisecond, Factor: 4, Longest: time.Second, Jitter: 0.2}

	// Intake is for all commands while the database fails: after each delay one of them is
	// tried.
	Intake = Policy{First: 100 * time.Millisecond, Factor: 2, Longest: 5 * time.Second}

	// Redelivery is for a message that went back to the broker. It has no last try. With
	// the jitter the delays are 1 s, 5 s and then 25 s on average.
	Redelivery = Policy{First: 1200 * time.Millisecond, Factor: 5, Longest: 30 * time.Second, Jitter: 1.0 / 3}

	// Inbox is for a message that waits in the inbox since its handling failed: 1, 5, 25,
	// 125 and then 300 s, the jitter left out.
	Inbox = Policy{First: time.Second, Factor: 5, Longest: 5 * time.Minute, Jitter: 0.2}

	// Publish is for an event that the broker did not take. There is no last try, unless
	// the broker refuses the event as often as outbox.Options allow.
	Publish = Policy{First: 50 * time.Millisecond, Factor: 2, Longest: 5 * time.Second, Jitter: 0.5}

	// OnDue is for an event whose handler in the process failed. It has no last try.
	OnDue = Policy{First: time.Second, Factor: 2, Longest: time.Hour, Jitter: 0.25}

	// Database is for a table that could not be read or changed.
	Database = Policy{First: 50 * time.Millisecond, Factor: 2, Longest: 5 * time.Second}

	// Shard is for an instance that found one with other receivers of events: of two that
	// started at once one tries while the other does not.
	Shard = Policy{First: 750 * time.Millisecond, Factor: 1, Longest: 750 * time.Millisecond, Jitter: 2.0 / 3}

	// Verify is for a broker that answers, but is not set up as the service needs it, or
	// that ends a subscription.
	Verify = Policy{First: 50 * time.Millisecond, Factor: 2, Longest: 5 * time.Second}

	// Connection is for a broker that could not be reached: events wait for it, and a
	// try costs little.
	Connection = Policy{First: 50 * time.Millisecond, Factor: 2, Longest: 500 * time.Millisecond}
)

// MaxTries is how often a command is handled before it goes back to the broker.
const MaxTries = 3

// After returns how long to wait after a number of failures in a row, from 1.
func (p Policy) After(failures int) time.Duration {
	d := p.First
	for n := 1; n < failures && d < p.Longest; n++ {
		d = min(d*time.Duration(p.Factor), p.Longest)
	}
	return d - time.Duration(float64(d)*p.Jitter*rand.Float64()) //nolint:gosec // jitter
}
