//go:build linux

package power

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// A Report says what was done and what came of it.
type Report struct {
	Seed       uint64
	Layout     Layout
	Rate       int // commands a second
	Tenants    int
	Cuts       int
	Lives      int     // processes of the service
	StartP50MS float64 // from the start of a process until it took commands, the median
	StartMaxMS float64 // the longest
	CutMaxMS   float64 // the longest cut, from the stop to the disk mounted again
	Seconds    float64 // the whole run
	Error      string  // why the run did not come to its end; empty if it did
	Dir        string  // disk, log and history of the run, if they are kept
	history.Verdict
}

// Void returns why a run that came to its end proves nothing, or nil if it does.
func (r Report) Void() error {
	if r.Fired == 0 {
		return errors.New("no timer fired")
	}
	return nil
}

// Write writes the report for people.
func (r Report) Write(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "run\t%s\tseed %d\n", r.Layout, r.Seed)
	fmt.Fprintf(t, "cuts\t%d\tin %.0f s, %d lives of the service\n", r.Cuts, r.Seconds, r.Lives)
	fmt.Fprintf(t, "starts\t\ttook %.0f ms in the median and %.0f at most until ready, a cut %.0f at most\n", r.StartP50MS, r.StartMaxMS, r.CutMaxMS)
	fmt.Fprintf(t, "messages sent\t%d\t%d a second to %d tenants; the broker acked %d, the service was seen to ack %d\n", r.Sent, r.Rate, r.Tenants, r.Acked, r.Accepted)
	fmt.Fprintf(t, "timers\t%d\t%d fired, %d canceled\n", r.Timers, r.Fired, r.Canceled)
	fmt.Fprintf(t, "events\t%d\t%d times one was seen to be published again\n", r.Events, r.Republished)
	fmt.Fprintf(t, "poison\t%d\t%d in the dead letters\n", r.Poison, r.DeadLettered)
	for _, f := range r.Findings {
		note := ""
		if f.Excused {
			note = "allowed"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\n", f.Rule, f.Count, note)
	}
	_ = t.Flush() // output: an error means that the reader has gone
	for _, f := range r.Findings {
		if f.Count > 0 {
			fmt.Fprintf(out, "%s, the first of %d: %.600s\n", f.Rule, f.Count, f.Example)
		}
	}
	switch n, void := r.Violations(), r.Void(); {
	case r.Error != "":
		fmt.Fprintln(out, "the run did not come to its end, so what is missing proves nothing:", r.Error)
	case n > 0:
		fmt.Fprintf(out, "%d violations\n", n)
	case void != nil:
		fmt.Fprintln(out, "this proves nothing:", void)
	default:
		fmt.Fprintln(out, "nothing is lost, no violation")
	}
	if r.Dir != "" {
		fmt.Fprintf(out, "disk, log and history are in %s\n", r.Dir)
	}
}

// Write writes the report for people.
func (c ControlReport) Write(out io.Writer) {
	fmt.Fprintf(out, "control, %d cuts each: with sync %d of %d acked records lost, without %d of %d\n",
		c.Cuts, c.Synced.Lost, c.Synced.Acked, c.Unsynced.Lost, c.Unsynced.Acked)
	if err := c.Void(); err != nil {
		fmt.Fprintln(out, "all runs are void:", err)
	}
}
