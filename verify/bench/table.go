package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Write writes results for people, a line a figure and a column a result.
func Write(out io.Writer, results ...Result) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	// line writes a figure, unless no result has it.
	line := func(name string, value func(Result) (text string, ok bool)) {
		cells, measured := name, false
		for _, r := range results {
			text, ok := value(r)
			if !ok {
				text = "-"
			}
			cells, measured = cells+"\t"+text, measured || ok
		}
		if measured {
			fmt.Fprintln(t, cells)
		}
	}
	number := func(name string, value func(Result) float64) {
		line(name, func(r Result) (string, bool) { return fmt.Sprintf("%.0f", value(r)), value(r) != 0 })
	}
	cpu := func(name string, value func(Result) *CPU) {
		line(name+", µs of CPU: service + database + broker + client", func(r Result) (string, bool) {
			c := value(r)
			if c == nil {
				return "", false
			}
			return fmt.Sprintf("%.1f + %.1f + %.1f + %.1f", c.Service, c.Store, c.Broker, c.Client), true
		})
	}
	late := func(name string, value func(Result) *Lateness) {
		line(name+", ms: p50 / p99 / max", func(r Result) (string, bool) {
			l := value(r)
			if l == nil {
				return "", false
			}
			return fmt.Sprintf("%.2f / %.2f / %.2f", l.P50, l.P99, l.Max), true
		})
	}
	line("workload", func(r Result) (string, bool) { return r.Workload, true })
	number("median of", func(r Result) float64 { return float64(r.Runs) })
	number("timers", func(r Result) float64 { return float64(r.Timers) })
	number("asked for, a second", func(r Result) float64 { return float64(r.Rate) })
	number("pending meanwhile", func(r Result) float64 { return float64(r.Pending) })
	number("accepted a second", func(r Result) float64 { return r.Accepted })
	number("delivered a second", func(r Result) float64 { return r.Delivered })
	cpu("intake", func(r Result) *CPU { return r.IntakeCPU })
	cpu("firing", func(r Result) *CPU { return r.FiringCPU })
	cpu("both", func(r Result) *CPU { return r.CPU })
	late("lateness", func(r Result) *Lateness { return r.Lateness })
	late("lateness before the great tenant was due", func(r Result) *Lateness { return r.Alone })
	number("peak memory, MiB", func(r Result) float64 { return r.PeakMiB })
	number("start, ms", func(r Result) float64 { return r.StartMS })
	_ = t.Flush() // output: an error means that the reader has gone
	for _, r := range results {
		fmt.Fprintf(out, "%s: %s\n", r.Workload, r.Setup)
	}
}
