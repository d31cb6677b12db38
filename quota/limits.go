package quota

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Policy says how a command that exceeds a limit is handled.
type Policy string

// These are the policies.
const (
	Delay      Policy = "delay"       // it waits in the inbox
	DeadLetter Policy = "dead_letter" // it becomes a dead letter
)

// A Rate is a number of timers a second. The zero value is no limit.
type Rate struct {
	PerSecond float64 // 0: no limit
	Burst     int     // how many may come at once after a rest; 0: the number of one second
}

// Limits are the limits of one tenant. The zero value limits nothing.
type Limits struct {
	Live    int64         // timers that wait; 0: no limit
	Accept  Rate          // timers that are accepted
	Fire    Rate          // timers that fire
	Horizon time.Duration // how far ahead a timer may be due; 0: the limit of the service
	Policy  Policy        // for commands that exceed Live or Accept; default Delay

	// ExpireAfter is how long after its due time a timer expires whose command names no expiry;
	// 0: never.
	ExpireAfter time.Duration

	// Objective is how late events may be that the broker acks; 0: [DefaultObjective].
	Objective time.Duration
}

// How late an event may be, until the broker's ack.
const (
	DefaultObjective = time.Second
	MinObjective     = 100 * time.Millisecond
)

// A Config holds the limits of all tenants. It must not be changed once a
// [Limiter] uses it.
type Config struct {
	Default Limits                    // of tenants that are not in Tenants
	Tenants map[timer.TenantID]Limits // complete: nothing is filled in from Default
}

// Of returns the limits of a tenant.
func (c *Config) Of(tenant timer.TenantID) Limits {
	if l, ok := c.Tenants[tenant]; ok {
		return l
	}
	return c.Default
}

// Validate returns all mistakes.
func (c *Config) Validate() error {
	errs := []error{c.Default.validate("default")}
	for _, tenant := range slices.Sorted(maps.Keys(c.Tenants)) {
		errs = append(errs, tenant.Validate(), c.Tenants[tenant].validate("tenant "+string(tenant)))
	}
	return errors.Join(errs...)
}

// validate returns an error if one of the limits is not a limit.
func (l Limits) validate(whose string) error {
	rate := func(r Rate) bool { return r.PerSecond >= 0 && !math.IsInf(r.PerSecond, 0) && r.Burst >= 0 }
	if rate(l.Accept) && rate(l.Fire) && l.Live >= 0 && l.Horizon >= 0 && l.ExpireAfter >= 0 && l.Objective >= 0 && slices.Contains([]Policy{"", Delay, DeadLetter}, l.Policy) {
		return nil
	}
	return fmt.Errorf("%s: %+v are no limits: numbers must not be negative, and a policy is %s or %s", whose, l, Delay, DeadLetter)
}

// firesFreely reports whether no tenant's fire rate is limited.
func (c *Config) firesFreely() bool {
	limited := func(l Limits) bool { return l.Fire.PerSecond > 0 }
	return !limited(c.Default) && !slices.ContainsFunc(slices.Collect(maps.Values(c.Tenants)), limited)
}
