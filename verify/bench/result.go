package bench

import (
	"fmt"
	"strings"

	"github.com/event-service-agent/timer-service/verify/bench/database"
	"github.com/event-service-agent/timer-service/verify/bench/inside"
	"github.com/event-service-agent/timer-service/verify/crash"

	"github.com/event-service-agent/timer-service/verify/bench/machine"
)

// A Result is what one run measured. What the workload does not measure is zero.
type Result struct {
	Workload      string        `json:"workload"`
	Store         database.Kind `json:"store,omitzero"`
	Instances     int           `json:"instances,omitzero"`
	Broker        crash.Kind    `json:"broker"`
	Setup         string        `json:"setup"`         // what was measured, for people
	Load          float64       `json:"load,omitzero"` // of the machine, of the last minute: processes that run or want to
	Runs          int           `json:"runs,omitzero"` // of which these are the medians
	Timers        int           `json:"timers,omitzero"`
	Rate          int           `json:"rate,omitzero"`          // timers a second, as asked for
	Pending       int           `json:"pending,omitzero"`       // timers that waited meanwhile
	FirstAccepted float64       `json:"firstAccepted,omitzero"` // commands a second that were committed of these
	Published     float64       `json:"published,omitzero"`     // commands a second that the broker took
	Accepted      float64       `json:"accepted,omitzero"`      // commands a second that the service has committed
	Delivered     float64       `json:"delivered,omitzero"`     // events a second that the consumer got, from the due time on
	IntakeCPU     *CPU          `json:"intakeCpu,omitzero"`     // until accepted
	FiringCPU     *CPU          `json:"firingCpu,omitzero"`     // from then until all was forwarded and deleted
	CPU           *CPU          `json:"cpu,omitzero"`           // where the two overlap
	PeakMiB       float64       `json:"peakMib,omitzero"`       // memory of an instance at most
	StartMS       float64       `json:"startMs,omitzero"`       // from the start of an instance until it took commands, the slowest
	Lateness      *Lateness     `json:"latenessMs,omitzero"`    // from the due time to the consumer

	Alone *Lateness `json:"aloneMs,omitzero"` // lateness of the small tenants before the great one is due

	Costs *inside.Costs   `json:"costs,omitzero"` // of the store's calls
	Parts []database.Part `json:"parts,omitzero"` // of the database, when it was filled
}

// result returns what is known of every workload.
func (s *system) result(workload string, used usages) Result {
	r := Result{
		Workload: workload, Store: s.opt.Store, Instances: len(s.instances), Broker: s.opt.Broker, Setup: s.opt.setup(),
		Load: machine.Load(), Pending: s.opt.Pending, PeakMiB: used.service.PeakMiB,
	}
	for _, i := range s.instances {
		r.StartMS = max(r.StartMS, milliseconds(i.took()))
	}
	return r
}

// CPU is how much of it a timer took, in microseconds. A broker that is embedded
// counts as the service.
type CPU struct {
	Service float64 `json:"service"`        // all instances
	Store   float64 `json:"store,omitzero"` // the database's server
	Broker  float64 `json:"broker,omitzero"`
	Client  float64 `json:"client"` // producer and consumer
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
type Lateness struct {
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
	Curve []Point `json:"curve"` // by quantile, for drawing

	MarkedP99 float64 `json:"markedP99"` // the same from the due time until the timer was Reached
	MarkedMax float64 `json:"markedMax"`
}

// A Point of a curve says that so large a part of the timers was at most so late.
type Point struct {
	Quantile float64 `json:"q"`
	MS       float64 `json:"ms"`
}

// setup says what was measured.
func (o Options) setup() string {
	parts := []string{"nats-server, syncing every 2 min"}
	switch {
	case o.Embedded:
		parts[0] = "embedded NATS"
	case o.BrokerURL != "":
		parts[0] = string(o.Broker) + " as given"
	case o.Broker == crash.Kafka:
		parts[0] = "kfake"
	case o.Broker == crash.RabbitMQ:
		parts[0] = "RabbitMQ"
	}
	if o.Bulk {
		parts = append(parts, "bulk")
	}
	parts = append(parts, map[database.Kind]string{database.SQLite: "SQLite strict", database.Postgres: "PostgreSQL strict"}[o.Store])
	if o.First > 0 {
		parts = append(parts, fmt.Sprint("after ", o.First, " others"))
	}
	if o.Instances > 1 {
		parts = append(parts, fmt.Sprint(o.Instances, " instances"))
	}
	return strings.Join(append(parts, o.Settings...), ", ")
}
