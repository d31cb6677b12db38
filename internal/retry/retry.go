// Package retry says when something that failed is tried again: one type for all parts of
// the service, and the values that they have.
package retry

import (
	"math/rand/v2"
	"time"
)

// A Policy says how long to wait after each of several failures in a row.
type Policy struct {
	First   time.Duration // after the first failure
	Factor  int           // how many times longer each further delay is
	Longest time.Duration // that a delay becomes
	Jitter  float64       // a delay is up to this part of it shorter, so that what failed together is not tried together
}

// The policies of the service.
var (
	// Handler is for a command that its handler could not apply, while the broker waits
	// for the ack, MaxTries times in all. Then it goes back to the broker. Watermill
	// applies it, and makes delays longer, too, by the jitter.
	Handler = Policy{First: 50 * time.Millisecond, Factor: 4, Longest: time.Second, Jitter: 0.2}

	// Intake is for the commands of all, while the database fails: one of them tries then.
	Intake = Policy{First: 100 * time.Millisecond, Factor: 2, Longest: 5 * time.Second}

	// Redelivery is for a message that was given back to the broker, for ever.
	Redelivery = Policy{First: 1200 * time.Millisecond, Factor: 5, Longest: 30 * time.Second, Jitter: 1.0 / 3}

	// Publish is for an event that the broker did not take, for ever, or until it has
	// refused the event as often as outbox.Options say.
	Publish = Policy{First: 50 * time.Millisecond, Factor: 2, Longest: 5 * time.Second, Jitter: 0.5}

	// OnDue is for an event whose handler in the process failed, for ever.
	OnDue = Policy{First: time.Second, Factor: 2, Longest: time.Hour, Jitter: 0.25}

	// Database is for a table that could not be read or changed.
	Database = Policy{First: 50 * time.Millisecond, Factor: 2, Longest: 5 * time.Second}

	// Verify is for a broker that answers, but is not as the service needs it, or ends a
	// subscription.
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
