package crash

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// A Report has the options of a run and its results.
type Report struct {
	Kills    int // or other faults of the mode
	Lives    int // processes of the service
	Ready    int // processes that took commands
	Refusals int // processes of the older version that ended, since the schema was newer
	Ended    int // processes that ended by themselves after a failover, to recover at their next start
	Steps    []StepReport
	StartMS  float64 // from the start of a process until it took commands, the median
	Seconds  float64 // the whole run
	Error    string  // why the run did not come to its end; empty if it did
	Dir      string  // data, logs and history of the run, if they are kept
	history.Verdict

	opt Options
}

// Write writes the report for people.
func (r Report) Write(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "seed\t%d\n", r.opt.Seed)
	if r.opt.Servers > 1 {
		fmt.Fprintf(t, "broker\t%s\t%d servers, sync_interval %s\n", r.opt.Broker.Name(), r.opt.Servers, cmp.Or(r.opt.Sync, "by default"))
	} else {
		fmt.Fprintf(t, "broker\t%s\n", r.opt.Broker.Name())
	}
	fmt.Fprintf(t, "store\t%s\tshared by %d of the service\n", r.opt.Store, r.opt.Instances)
	fmt.Fprintf(t, "kills\t%d\tmode %s, in %.0f s\n", r.Kills, r.opt.Mode, r.Seconds)
	fmt.Fprintf(t, "lives\t%d\t%d got ready, half of them within %.0f ms\n", r.Lives, r.Ready, r.StartMS)
	if r.opt.Mode == Upgrade {
		fmt.Fprintf(t, "ended\t%d\tof the older version, since the schema was newer\n", r.Refusals)
	}
	if r.opt.Mode.failsOver() {
		fmt.Fprintf(t, "ended\t%d\tby themselves after a failover, to recover at their next start\n", r.Ended)
	}
	fmt.Fprintf(t, "messages sent\t%d\t%d a second to %d tenants; the broker has %d, the service acked %d\n", r.Sent, r.opt.Rate, tenants, r.Acked, r.Accepted)
	if r.opt.Mode == EmptyBroker {
		fmt.Fprintf(t, "gone\t%d\tthat the broker lost before the service acked them\n", r.Gone)
	}
	fmt.Fprintf(t, "timers\t%d\t%d fired, %d canceled\n", r.Timers, r.Fired, r.Canceled)
	fate := "the consumer sees them again"
	if r.opt.Broker == NATS {
		fate = "the broker drops most"
	}
	fmt.Fprintf(t, "events\t%d\t%d times one was published again, one of them %d times in all; %s\n", r.Events, r.Republished, r.MostOften, fate)
	fmt.Fprintf(t, "poison\t%d\t%d in the dead letters\n", r.Poison, r.DeadLettered)
	fmt.Fprintln(t)
	if len(r.Steps) > 0 {
		fmt.Fprintln(t, "died when it had\tkills\ts")
		for _, s := range r.Steps {
			fmt.Fprintf(t, "%s: %s\t%d\t%.1f\n", s.Step, s.Died, s.Kills, s.Seconds)
		}
		fmt.Fprintln(t)
	}
	for _, f := range r.Findings {
		note := ""
		if f.Excused {
			note = "allowed in this mode"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\n", f.Rule, f.Count, note)
	}
	fmt.Fprintln(t)
	fmt.Fprintln(t, "lateness, ms\tp50\tp99\tmax\tof")
	for _, l := range []struct {
		name string
		history.Lateness
	}{
		{"timers", r.Overall},
		{"due while up", r.WhileUp},
	} {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%d\n", l.name, l.P50MS, l.P99MS, l.MaxMS, l.Count)
	}
	_ = t.Flush() // output: an error means that the reader has gone

	fmt.Fprintln(out)
	for _, f := range r.Findings {
		if f.Count > 0 && !f.Excused {
			fmt.Fprintf(out, "%s, the first of %d: %s\n", f.Rule, f.Count, f.Example)
		}
	}
	switch n := r.Violations(); {
	case n > 0:
		fmt.Fprintf(out, "%d violations\n", n)
	case r.Error != "":
		fmt.Fprintln(out, "the run did not come to its end, so this proves nothing")
	default:
		fmt.Fprintln(out, "no violation")
	}
	if r.Dir != "" {
		fmt.Fprintf(out, "data, logs and history are in %s\n", r.Dir)
	}
}
