package bench

import (
	"fmt"
	"strings"

	"github.com/event-service-agent/timer-service/verify/crash"
)

// A Result has the figures of one run. Figures that the workload does not measure are zero.
type Result struct {
	Workload  string
	Setup     string // name of the measurement, for people
	Runs      int    // of which these are the medians
	Timers    int
	Rate      int       // timers a second, as asked for
	Pending   int       // timers that waited meanwhile
	Accepted  float64   // commands a second that the service has committed
	Delivered float64   // events a second that the consumer got, from the due time on
	IntakeCPU *CPU      // until accepted
	FiringCPU *CPU      // from then until all was forwarded and deleted
	CPU       *CPU      // where the two overlap
	PeakMiB   float64   // peak memory of an instance
	StartMS   float64   // from the start of an instance until it took commands, the slowest
	Lateness  *Lateness // from the due time to the consumer
	Alone     *Lateness // lateness of the small tenants before the great one is due
}

// result returns the figures that every workload has.
func (s *system) result(workload string, used usages) Result {
	r := Result{
		Workload: workload, Setup: s.opt.setup(), Pending: s.opt.Pending, PeakMiB: used.service.peakMiB,
	}
	for _, i := range s.instances {
		r.StartMS = max(r.StartMS, milliseconds(i.ReadyAt.Sub(i.Started)))
	}
	return r
}

// CPU is how much of it a timer took, in microseconds. A broker that is embedded
// counts as the service.
type CPU struct {
	Service float64 // all instances
	Store   float64 // the database's server
	Broker  float64
	Client  float64 // producer and consumer
}

// sum is that of all processes; of nil, zero.
func (c *CPU) sum() float64 {
	if c == nil {
		return 0
	}
	return c.Service + c.Store + c.Broker + c.Client
}

// serviceCPU is that of the instances, over all that was measured.
func (r Result) serviceCPU() (sum float64) {
	for _, c := range []*CPU{r.IntakeCPU, r.FiringCPU, r.CPU} {
		if c != nil {
			sum += c.Service
		}
	}
	return sum
}

// late is the lateness, or zeros if it was not measured.
func (r Result) late() Lateness {
	if r.Lateness == nil {
		return Lateness{}
	}
	return *r.Lateness
}

// Lateness is how late timers fired, in milliseconds.
type Lateness struct{ P50, P99, Max float64 }

// setup returns the name of the measurement.
func (o Options) setup() string {
	parts := []string{"nats-server, syncing every 2 min"}
	switch {
	case o.Embedded:
		parts[0] = "embedded NATS"
	case o.Kafka != "":
		parts[0] = "Kafka at " + o.Kafka
	case o.Broker != crash.NATS:
		parts[0] = o.Broker.Name()
	}
	if o.Bulk {
		parts = append(parts, "bulk")
	}
	parts = append(parts, map[crash.Store]string{crash.SQLite: "SQLite strict", crash.Postgres: "PostgreSQL strict"}[o.Store])
	if o.Instances > 1 {
		parts = append(parts, fmt.Sprint(o.Instances, " instances"))
	}
	if o.RoundTrip > 0 {
		parts = append(parts, fmt.Sprint("round trips of ", o.RoundTrip))
	}
	return strings.Join(append(parts, o.Settings...), ", ")
}
