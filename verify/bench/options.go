package bench

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash"
)

// Options say what to measure. The zero value of a field takes its default.
type Options struct {
	Store     crash.Store   // where the timers are kept; default [crash.SQLite]
	Instances int           // of the service, on one database; default 1
	Timers    int           // of a drain; default 50,000
	Rate      int           // timers a second of a steady load; default 500
	Duration  time.Duration // of a steady load; default 30s
	Tenants   int           // default 20
	Pending   int           // timers that wait in the store meanwhile and are not due; default none
	Bulk      bool          // a drain publishes ScheduleTimers of many timers each
	Lead      time.Duration // from the first command of a drain to the due time; default by the number of timers
	Broker    crash.Kind    // which broker is started; default [crash.NATS]
	Kafka     string        // URL of a Kafka that is used instead, see [crash.UseKafka]
	Embedded  bool          // the broker lives inside the service
	RoundTrip time.Duration // of the network between the service and its database and broker; default that of this machine
	Settings  []string      // more of the service, such as TIMER_BATCH_SIZE=1000
	Bin       string        // the service; built if empty
	Progress  io.Writer     // a line now and then; default none
}

func (o Options) withDefaults() Options {
	if o.Store == "" {
		o.Store = crash.SQLite
	}
	if o.Instances <= 0 {
		o.Instances = 1
	}
	if o.Timers <= 0 {
		o.Timers = 50_000
	}
	if o.Rate <= 0 {
		o.Rate = 500
	}
	if o.Duration <= 0 {
		o.Duration = 30 * time.Second
	}
	if o.Tenants <= 0 {
		o.Tenants = 20
	}
	if o.Lead <= 0 {
		o.Lead = 2*time.Second + time.Duration(o.Timers)*time.Second/slowestIntake[o.Store]
	}
	if o.Broker == "" {
		o.Broker = crash.NATS
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o
}

// steadyTimers is how many timers a steady load has, with those that do not count.
func (o Options) steadyTimers() int {
	return int(float64(o.Rate) * (warmUp + o.Duration).Seconds())
}

// slowestIntake is how many commands a second the service is expected to take
// at least. A drain in which it was slower says so and is void.
var slowestIntake = map[crash.Store]time.Duration{crash.SQLite: 6_000, crash.Postgres: 3_000}

// check returns an error if options exclude each other.
func (o Options) check() error {
	switch {
	case o.RoundTrip > 0 && o.Broker == crash.Kafka:
		return errors.New("no network can be put before Kafka, which names its address by itself")
	case o.Instances > 1 && o.Store == crash.SQLite:
		return errors.New("only instances on PostgreSQL share a database")
	case o.Instances > 1 && o.Embedded:
		return errors.New("instances do not share an embedded broker")
	case o.Broker != crash.NATS && o.Embedded:
		return fmt.Errorf("only the broker %s can be embedded", crash.NATS)
	}
	return nil
}
