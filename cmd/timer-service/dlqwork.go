package main

import (
	"context"
	"fmt"

	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/timer"
)

// A letterWork is what replay and discard have in common.
type letterWork struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of dead letters, as dlq list prints them."`
	letterFilter
	All    bool    `help:"All of them, of all tenants, if nothing else says which."`
	Limit  int     `help:"How many at most, oldest first; 0 is all." default:"0"`
	Rate   float64 `placeholder:"N" help:"Most letters a second; 0 is no limit."`
	DryRun bool    `help:"Only tell what would be done."`
}

// run does the work, and prints a line for each letter.
func (w *letterWork) run(
	ctx context.Context, e *env, verb string,
	work func(*deadletter.Office, context.Context, deadletter.Filter, deadletter.Options) (deadletter.Summary, error),
) error {
	f, err := w.filter(e, verb, w.IDs, w.Limit)
	switch {
	case err != nil:
		return err
	case !w.All && !some(f):
		return wrong(verb, "say which: ids, --tenant, --reason or --since; or --all")
	case w.All && len(f.IDs) > 0:
		return wrong(verb, "ids and --all exclude each other; give one")
	case w.Rate < 0:
		return wrong(verb, "--rate must not be negative; 0 is no limit")
	}
	p := newProgress(e, "dead letters")
	if isTerminal(e.out.w) {
		p = nil // the lines themselves show it
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tell := func(r deadletter.Result) {
		e.out.print(worked(r, w.DryRun))
		p.add(1)
		if e.out.failed() != nil { // nobody would know what was done
			stop()
		}
	}
	return withLetters(ctx, e, verb, func(o *deadletter.Office) (deadletter.Summary, error) {
		sum, err := work(o, ctx, f, deadletter.Options{Rate: w.Rate, DryRun: w.DryRun, Tell: tell})
		p.clear()
		if err != nil || len(sum.Missing) > 0 {
			return sum, err
		}
		if sum.Done+sum.Refused == 0 {
			fmt.Fprintln(e.stderr, "no dead letters")
		}
		if sum.More {
			fmt.Fprintf(e.stderr, "there may be more: raise --limit, now %d\n", w.Limit)
		}
		if sum.Refused > 0 && !w.DryRun {
			err = fmt.Errorf("%d of %d dead letters stay where they are", sum.Refused, sum.Done+sum.Refused)
		}
		return sum, err
	})
}

// A workedLetter is what became of a letter, or would.
type workedLetter struct {
	Result    string         `json:"result"`
	DryRun    bool           `json:"dryRun,omitempty"`
	ID        string         `json:"id"`
	TenantID  timer.TenantID `json:"tenantId"`
	Reason    timer.Reason   `json:"reason,omitempty"`
	Topic     string         `json:"topic,omitempty"`     // where it was replayed to
	MessageID string         `json:"messageId,omitempty"` // of the message it was replayed as
	Why       string         `json:"why,omitempty"`       // why it was refused
}

func worked(r deadletter.Result, dry bool) *workedLetter {
	w := &workedLetter{
		Result: r.Did, DryRun: dry, ID: r.Letter.ID, TenantID: r.Letter.Tenant, Reason: r.Letter.Reason, Topic: r.Topic, MessageID: r.ID,
	}
	if r.Why != nil {
		w.Why = r.Why.Error()
	}
	return w
}

func (w *workedLetter) text() string {
	what := w.Result
	if w.DryRun {
		what = "would be " + what
	}
	text := fmt.Sprintf("%-10s %s  %s  %s", what, w.ID, w.TenantID, orDash(string(w.Reason)))
	switch {
	case w.Why != "":
		text += "  " + w.Why
	case w.Topic != "":
		text += "  to " + w.Topic
	}
	return printable(text)
}
