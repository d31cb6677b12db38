package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/event-service-agent/timer-service/verify/bench/inside"
)

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
	line("median of", "%d", func(r Result) any { return r.Runs }, func(r Result) bool { return r.Runs == 0 })
	number("load of the machine", "%.1f", func(r Result) float64 { return r.Load })
	line("store", "%s", func(r Result) any { return r.Store }, func(r Result) bool { return r.Store == "" })
	line("instances", "%d", func(r Result) any { return r.Instances }, func(r Result) bool { return r.Instances < 2 })
	line("broker", "%s", func(r Result) any { return r.Broker }, func(Result) bool { return false })
	number("timers", "%.0f", func(r Result) float64 { return float64(r.Timers) })
	number("asked for, a second", "%.0f", func(r Result) float64 { return float64(r.Rate) })
	number("pending meanwhile", "%.0f", func(r Result) float64 { return float64(r.Pending) })
	number("published a second", "%.0f", func(r Result) float64 { return r.Published })
	number("of the first, accepted a second", "%.0f", func(r Result) float64 { return r.FirstAccepted })
	number("accepted a second", "%.0f", func(r Result) float64 { return r.Accepted })
	number("delivered a second", "%.0f", func(r Result) float64 { return r.Delivered })
	cpu := func(name string, value func(Result) *CPU) {
		line(name, "%s", func(r Result) any {
			c := value(r)
			if c.Store > 0 {
				return fmt.Sprintf("%.1f + %.1f + %.1f + %.1f", c.Service, c.Store, c.Broker, c.Client)
			}
			return fmt.Sprintf("%.1f + %.1f + %.1f", c.Service, c.Broker, c.Client)
		}, func(r Result) bool { return value(r) == nil })
	}
	cpu("CPU of intake, µs: service + database + broker + client", func(r Result) *CPU { return r.IntakeCPU })
	cpu("CPU of firing, µs: service + database + broker + client", func(r Result) *CPU { return r.FiringCPU })
	cpu("CPU of both, µs: service + database + broker + client", func(r Result) *CPU { return r.CPU })
	ms("lateness p50, ms", func(l *Lateness) float64 { return l.P50 })
	ms("lateness p95, ms", func(l *Lateness) float64 { return l.P95 })
	ms("lateness p99, ms", func(l *Lateness) float64 { return l.P99 })
	ms("lateness p99.9, ms", func(l *Lateness) float64 { return l.P999 })
	ms("lateness max, ms", func(l *Lateness) float64 { return l.Max })
	ms("until Reached p99, ms", func(l *Lateness) float64 { return l.MarkedP99 })
	ms("until Reached max, ms", func(l *Lateness) float64 { return l.MarkedMax })
	alone := func(name string, value func(*Lateness) float64) {
		line(name, "%.2f", func(r Result) any { return value(r.Alone) }, func(r Result) bool { return r.Alone == nil })
	}
	alone("alone p50, ms", func(l *Lateness) float64 { return l.P50 })
	alone("alone p99, ms", func(l *Lateness) float64 { return l.P99 })
	alone("alone max, ms", func(l *Lateness) float64 { return l.Max })
	price := func(name string, value func(*inside.Costs) inside.Price) {
		line(name, "%s", func(r Result) any {
			p := value(r.Costs)
			return fmt.Sprintf("%.1f, %.1f", p.CPU, p.Wall)
		}, func(r Result) bool { return r.Costs == nil })
	}
	price("schedule one, µs of CPU and of the clock", func(c *inside.Costs) inside.Price { return c.Alone })
	price("schedule one of 100", func(c *inside.Costs) inside.Price { return c.Schedule })
	price("read the next due time", func(c *inside.Costs) inside.Price { return c.NextDue })
	price("reach and emit one of 1,000", func(c *inside.Costs) inside.Price { return c.Fire })
	price("read and delete one of 1,000", func(c *inside.Costs) inside.Price { return c.Forward })
	number("peak memory, MiB", "%.0f", func(r Result) float64 { return r.PeakMiB })
	number("start, ms", "%.0f", func(r Result) float64 { return r.StartMS })
	for _, name := range partNames(results) {
		number(name+", bytes a timer", "%.1f", func(r Result) float64 { return r.bytes(name) })
	}
	_ = t.Flush() // output: an error means that the reader has gone
	for _, r := range results {
		fmt.Fprintf(out, "%s: %s\n", r.Workload, r.Setup)
	}
}

// partNames are those of the parts of all results, the largest first.
func partNames(results []Result) (names []string) {
	largest := make(map[string]int64)
	for _, r := range results {
		for _, p := range r.Parts {
			largest[p.Name] = max(largest[p.Name], p.Bytes)
		}
	}
	names = slices.Sorted(maps.Keys(largest))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(largest[b], largest[a]) })
	return slices.DeleteFunc(names, func(name string) bool { return largest[name] < smallPart })
}

// smallPart is the size of a part that is not worth a line.
const smallPart = 1 << 20

// bytes returns how large a part is, for each timer that waits.
func (r Result) bytes(part string) float64 {
	for _, p := range r.Parts {
		if p.Name == part && r.Pending > 0 {
			return float64(p.Bytes) / float64(r.Pending)
		}
	}
	return 0
}
