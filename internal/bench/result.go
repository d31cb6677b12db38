package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/event-service-agent/timer-service/internal/crash"
)

// A Result is what one run measured. What the workload does not measure is zero.
type Result struct {
	Workload  string     `json:"workload"`
	Broker    crash.Kind `json:"broker"`
	Setup     string     `json:"setup"` // what was measured, for people
	Timers    int        `json:"timers,omitzero"`
	Rate      int        `json:"rate,omitzero"`       // timers a second, as asked for
	Pending   int        `json:"pending,omitzero"`    // timers that waited meanwhile
	Published float64    `json:"published,omitzero"`  // commands a second that the broker took
	Accepted  float64    `json:"accepted,omitzero"`   // commands a second that the service has committed
	Delivered float64    `json:"delivered,omitzero"`  // events a second that the consumer got, from the due time on
	IntakeCPU *CPU       `json:"intakeCpu,omitzero"`  // until accepted
	FiringCPU *CPU       `json:"firingCpu,omitzero"`  // from then until all was forwarded and deleted
	CPU       float64    `json:"cpu,omitzero"`        // of the service, µs a timer, where the two overlap
	PeakMiB   float64    `json:"peakMib,omitzero"`    // memory of the service at most
	StartMS   float64    `json:"startMs,omitzero"`    // from the start of the service until it took commands
	Lateness  *Lateness  `json:"latenessMs,omitzero"` // from the due time to the consumer

	IdleCPUPercent   float64 `json:"idleCpuPercent,omitzero"` // of one core
	IdleWrittenBytes int64   `json:"idleWrittenBytes,omitzero"`
}

// CPU is how much of it a timer took, in microseconds. A broker that is embedded
// counts as the service.
type CPU struct {
	Service float64 `json:"service"`
	Broker  float64 `json:"broker,omitzero"`
	Client  float64 `json:"client"` // producer and consumer
}

// Lateness is how late timers fired, in milliseconds.
type Lateness struct {
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
	Curve []Point `json:"curve"` // by quantile, for drawing
}

// A Point of a curve says that so large a part of the timers was at most so late.
type Point struct {
	Quantile float64 `json:"q"`
	MS       float64 `json:"ms"`
}

func (r *Result) late(h *hdrhistogram.Histogram) {
	if h == nil {
		return
	}
	at := func(percent float64) float64 { return float64(h.ValueAtQuantile(percent)) / 1000 }
	r.Lateness = &Lateness{P50: at(50), P95: at(95), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1000}
	for _, b := range h.CumulativeDistributionWithTicks(5) {
		if b.Quantile < 100 {
			r.Lateness.Curve = append(r.Lateness.Curve, Point{Quantile: b.Quantile / 100, MS: float64(b.ValueAt) / 1000})
		}
	}
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
	case o.SyncAll:
		parts[0] = "nats-server, SyncAlways"
	}
	if o.Relaxed {
		parts = append(parts, "SQLite relaxed")
	} else {
		parts = append(parts, "SQLite strict")
	}
	return strings.Join(append(parts, o.Settings...), ", ")
}

// Write writes results for people, a line a figure and a column a result.
func Write(out io.Writer, results ...Result) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, value func(Result) any, skip func(Result) bool) {
		cells, any := name, false
		for _, r := range results {
			cell := "-"
			if !skip(r) {
				cell, any = fmt.Sprintf(format, value(r)), true
			}
			cells += "\t" + cell
		}
		if any {
			fmt.Fprintln(t, cells)
		}
	}
	number := func(name, format string, value func(Result) float64) {
		line(name, format, func(r Result) any { return value(r) }, func(r Result) bool { return value(r) == 0 })
	}
	ms := func(name string, value func(*Lateness) float64) {
		line(name, "%.2f", func(r Result) any { return value(r.Lateness) }, func(r Result) bool { return r.Lateness == nil })
	}
	line("workload", "%s", func(r Result) any { return r.Workload }, func(Result) bool { return false })
	line("broker", "%s", func(r Result) any { return r.Broker }, func(Result) bool { return false })
	number("timers", "%.0f", func(r Result) float64 { return float64(r.Timers) })
	number("asked for, a second", "%.0f", func(r Result) float64 { return float64(r.Rate) })
	number("pending meanwhile", "%.0f", func(r Result) float64 { return float64(r.Pending) })
	number("published a second", "%.0f", func(r Result) float64 { return r.Published })
	number("accepted a second", "%.0f", func(r Result) float64 { return r.Accepted })
	number("delivered a second", "%.0f", func(r Result) float64 { return r.Delivered })
	cpu := func(name string, value func(Result) *CPU) {
		line(name, "%s", func(r Result) any {
			c := value(r)
			return fmt.Sprintf("%.1f + %.1f + %.1f", c.Service, c.Broker, c.Client)
		}, func(r Result) bool { return value(r) == nil })
	}
	cpu("CPU of intake, µs: service + broker + client", func(r Result) *CPU { return r.IntakeCPU })
	cpu("CPU of firing, µs: service + broker + client", func(r Result) *CPU { return r.FiringCPU })
	number("CPU of the service, µs", "%.1f", func(r Result) float64 { return r.CPU })
	ms("lateness p50, ms", func(l *Lateness) float64 { return l.P50 })
	ms("lateness p95, ms", func(l *Lateness) float64 { return l.P95 })
	ms("lateness p99, ms", func(l *Lateness) float64 { return l.P99 })
	ms("lateness p99.9, ms", func(l *Lateness) float64 { return l.P999 })
	ms("lateness max, ms", func(l *Lateness) float64 { return l.Max })
	isIdle := func(r Result) bool { return r.Workload != "idle" }
	line("idle CPU, % of a core", "%.2f", func(r Result) any { return r.IdleCPUPercent }, isIdle)
	line("idle, bytes written", "%d", func(r Result) any { return r.IdleWrittenBytes }, isIdle)
	number("peak memory, MiB", "%.0f", func(r Result) float64 { return r.PeakMiB })
	number("start, ms", "%.0f", func(r Result) float64 { return r.StartMS })
	_ = t.Flush() // output: a reader who went away needs no answer
	for _, r := range results {
		fmt.Fprintf(out, "%s: %s\n", r.Workload, r.Setup)
	}
}
