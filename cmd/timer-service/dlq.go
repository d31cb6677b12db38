package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type dlqCmd struct {
	List    dlqListCmd    `cmd:"" help:"List dead letters, oldest first."`
	Show    dlqShowCmd    `cmd:"" help:"Show dead letters with their bodies."`
	Replay  dlqReplayCmd  `cmd:"" help:"Publish the originals of dead letters again."`
	Discard dlqDiscardCmd `cmd:"" help:"Remove dead letters for good."`
}

// errNoDeadLetter says that there is no dead letter with an id.
var errNoDeadLetter = errors.New("no such dead letter")

// detailWidth is how many characters of a detail a table shows.
const detailWidth = 60

// deadLetterFlags select dead letters.
type deadLetterFlags struct {
	Tenant      string   `placeholder:"TENANT" help:"Only those of a tenant; _ for those without a valid tenant."`
	Reason      []string `placeholder:"REASON" help:"Only those with this reason, such as beyond_horizon; several with commas between them."`
	Since       since    `placeholder:"7d" help:"Only those that became dead letters within this duration, or since a time in RFC 3339."`
	Correlation string   `placeholder:"ID" help:"Only those with this correlation id."`
	ID          []string `name:"id" placeholder:"ID" help:"Only those with this id; several with commas between them."`
}

// filter returns the filter of the flags. IDs are those given without a flag.
func (d *deadLetterFlags) filter(verb string, ids []string, limit int) (deadletter.Filter, error) {
	f := deadletter.Filter{
		Tenant:      timer.TenantID(d.Tenant),
		IDs:         slices.Concat(ids, d.ID),
		Since:       time.Time(d.Since),
		Correlation: d.Correlation,
		Limit:       limit,
	}
	for _, reason := range d.Reason {
		f.Reasons = append(f.Reasons, timer.Reason(reason))
	}
	if err := broker.ValidateVisit(f.Tenant); err != nil {
		return f, wrong(verb, "--tenant: %s", detail(err))
	}
	if limit < 0 {
		return f, wrong(verb, "--limit must not be negative; 0 is all")
	}
	return f, nil
}

// A deadLetterService is what people do with dead letters, at the broker or through a
// service that runs.
type deadLetterService interface {
	List(ctx context.Context, f deadletter.Filter, show func(deadletter.Message) error) (deadletter.Summary, error)
	Replay(ctx context.Context, f deadletter.Filter, opt deadletter.Options) (deadletter.Summary, error)
	Discard(ctx context.Context, f deadletter.Filter, opt deadletter.Options) (deadletter.Summary, error)
}

// withDeadLetters asks the service of the setting server, or else connects with the
// broker, lets do work on dead letters, with their bodies if it needs them, and
// disconnects.
func withDeadLetters(ctx context.Context, e *env, verb string, limit int, bodies bool, do func(deadLetterService) (deadletter.Summary, error)) error {
	remote, err := e.named()
	if err != nil {
		return err
	}
	var s deadLetterService = apiclient.DeadLetters{Client: remote, Bodies: bodies}
	if remote == nil {
		c, err := connect(ctx, e, verb)
		if err != nil {
			return err
		}
		defer c.close()
		s = deadletter.New(c.Broker)
	} else {
		defer remote.Close()
	}
	sum, err := do(s)
	if sum.More {
		fmt.Fprintf(e.stderr, "there may be more: raise --limit, now %d\n", limit)
	}
	return outcome(verb, sum, err)
}

// outcome returns the error of finished work, or nil.
func outcome(verb string, sum deadletter.Summary, err error) error {
	switch {
	case errors.Is(err, broker.ErrNameTenant) && verb == "stats": // where it is an argument
		return wrong(verb, "%w, such as acme", err)
	case errors.Is(err, broker.ErrNameTenant):
		return wrong(verb, "%w with --tenant", err)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted; the other dead letters are unchanged: %w", err)
	case err != nil:
		return err
	case len(sum.Missing) > 0:
		for i, id := range sum.Missing {
			sum.Missing[i] = timer.Quote(id)
		}
		return fmt.Errorf("%w: %s", errNoDeadLetter, strings.Join(sum.Missing, ", "))
	}
	return nil
}

type dlqListCmd struct {
	deadLetterFlags
	Limit int `default:"100" help:"How many at most; 0 is all."`
}

// Help is printed below the summary.
func (dlqListCmd) Help() string {
	return `Reads the broker, or asks the service of --server; nothing is removed. With -o json there is one object a line,
with the body of the original, and no output if there is no dead letter.

Examples:

    timer-service dlq list
    timer-service dlq list --tenant acme --reason beyond_horizon --since 24h
    timer-service dlq list --correlation req-7
    timer-service dlq list --tenant acme --limit 0 -o json`
}

// Run prints the dead letters.
func (d *dlqListCmd) Run(ctx context.Context, e *env) error {
	f, err := d.filter("dlq list", nil, d.Limit)
	if err != nil {
		return err
	}
	rows := e.out.rows("id", "tenant", "reason", "last at", "count", "detail", "when")
	return withDeadLetters(ctx, e, "dlq list", d.Limit, e.out.json, func(o deadLetterService) (deadletter.Summary, error) {
		sum, err := o.List(ctx, f, func(m deadletter.Message) error {
			s := showDeadLetter(m)
			rows.add(s, printable(s.ID), s.TenantID, printable(orDash(string(s.Reason))), s.LastAt, s.Count, short(s.Detail, detailWidth), s.LastAt.fromNow())
			return nil
		})
		if rows.end() && err == nil && len(sum.Missing) == 0 {
			fmt.Fprintln(e.stderr, "no dead letters")
		}
		return sum, err
	})
}

type dlqShowCmd struct {
	IDs    []string `arg:"" name:"id" help:"Ids of dead letters, as dlq list prints them."`
	Tenant string   `placeholder:"TENANT" help:"Tenant of the dead letters, for brokers that can't list their topics."`
}

// Help is printed below the summary.
func (dlqShowCmd) Help() string {
	return `Prints the fields of a dead letter, and the body of its original: as it is if it
is printable, else in base64. The exit code is 3 if there is no such dead letter.

Examples:

    timer-service dlq show 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c
    timer-service dlq show 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c -o json`
}

// Run prints the dead letters.
func (d *dlqShowCmd) Run(ctx context.Context, e *env) error {
	flags := deadLetterFlags{Tenant: d.Tenant}
	f, err := flags.filter("dlq show", d.IDs, 0)
	if err != nil {
		return err
	}
	return withDeadLetters(ctx, e, "dlq show", 0, true, func(o deadLetterService) (deadletter.Summary, error) {
		first := true
		return o.List(ctx, f, func(m deadletter.Message) error {
			if !first && !e.out.json {
				fmt.Fprintln(e.out.w)
			}
			first = false
			e.out.print(showDeadLetter(m))
			return nil
		})
	})
}

type dlqReplayCmd struct{ removeFlags }

// Help is printed below the summary.
func (dlqReplayCmd) Help() string {
	return `Publishes each original to the commands of its tenant, and removes the dead letter
when the broker has made the original durable. If the service refuses it again,
there is a new dead letter, with the count raised. A dead letter that was replayed
three times stays, and so does one whose body was cut: they are reported as
refused, and the exit code is 1. After an interrupt or a crash nothing is lost: run
it again. The exit code is 3 if there is no dead letter with an id.

Examples:

    timer-service dlq replay --tenant acme --reason beyond_horizon --dry-run
    timer-service dlq replay 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c
    timer-service dlq replay --all --rate 100`
}

// Run replays the dead letters.
func (d *dlqReplayCmd) Run(ctx context.Context, e *env) error {
	return d.run(ctx, e, "dlq replay", deadLetterService.Replay)
}

type dlqDiscardCmd struct{ removeFlags }

// Help is printed below the summary.
func (dlqDiscardCmd) Help() string {
	return `Removes dead letters from the broker: their originals are lost. The exit code is 3
if there is no dead letter with an id.

Examples:

    timer-service dlq discard 31b57e33-eb4d-5b11-a6d2-6a5b2d2ffb2c
    timer-service dlq discard --tenant acme --reason not_json --dry-run
    timer-service dlq discard --tenant _ --since 24h`
}

// Run removes the dead letters.
func (d *dlqDiscardCmd) Run(ctx context.Context, e *env) error {
	return d.run(ctx, e, "dlq discard", deadLetterService.Discard)
}

// removeFlags are those of replay and discard.
type removeFlags struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of dead letters, as dlq list prints them."`
	deadLetterFlags
	All    bool    `help:"All dead letters of all tenants, unless another flag selects some."`
	Limit  int     `help:"How many at most, oldest first; 0 is all." default:"0"`
	Rate   float64 `placeholder:"N" help:"At most so many dead letters a second; 0 is no limit."`
	DryRun bool    `help:"Only print what would be done."`
}

// run does the work, and prints a line for each dead letter.
func (r *removeFlags) run(
	ctx context.Context, e *env, verb string,
	work func(deadLetterService, context.Context, deadletter.Filter, deadletter.Options) (deadletter.Summary, error),
) error {
	f, err := r.filter(verb, r.IDs, r.Limit)
	switch {
	case err != nil:
		return err
	case !r.All && f.Tenant == "" && len(f.IDs)+len(f.Reasons) == 0 && f.Correlation == "" && f.Since.IsZero():
		return wrong(verb, "select some with ids, --tenant, --reason, --correlation or --since, or all with --all")
	case r.All && len(f.IDs) > 0:
		return wrong(verb, "ids and --all exclude each other; give one")
	case r.Rate < 0:
		return wrong(verb, "--rate must not be negative; 0 is no limit")
	}
	p := newProgress(e, "dead letters")
	if isTerminal(e.out.w) {
		p = nil // the lines show it
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	report := func(result deadletter.Result) {
		e.out.print(showRemoved(result, r.DryRun))
		p.add(1)
		if e.out.failed() != nil { // what is done must be reported
			stop()
		}
	}
	return withDeadLetters(ctx, e, verb, r.Limit, false, func(o deadLetterService) (deadletter.Summary, error) {
		sum, err := work(o, ctx, f, deadletter.Options{Rate: r.Rate, DryRun: r.DryRun, Tell: report})
		p.clear()
		switch {
		case err != nil || len(sum.Missing) > 0:
		case sum.Done+sum.Refused == 0:
			fmt.Fprintln(e.stderr, "no dead letters")
		case sum.Refused > 0 && !r.DryRun:
			err = fmt.Errorf("%d of %d dead letters were refused, and were not changed", sum.Refused, sum.Done+sum.Refused)
		}
		return sum, err
	})
}

// A removed is what replay or discard did with a dead letter, or would do.
type removed struct {
	Result    string         `json:"result"`
	DryRun    bool           `json:"dryRun,omitempty"`
	ID        string         `json:"id"`
	TenantID  timer.TenantID `json:"tenantId"`
	Reason    timer.Reason   `json:"reason,omitempty"`
	Topic     string         `json:"topic,omitempty"`     // where it was replayed to
	MessageID string         `json:"messageId,omitempty"` // of the message it was replayed as
	Why       string         `json:"why,omitempty"`       // why it was refused
}

func showRemoved(r deadletter.Result, dry bool) *removed {
	s := &removed{
		Result: r.Did, DryRun: dry, ID: r.Message.ID, TenantID: r.Message.Tenant, Reason: r.Message.Reason, Topic: r.Topic, MessageID: r.ID,
	}
	if r.Why != nil {
		s.Why = r.Why.Error()
	}
	return s
}

func (r *removed) text() string {
	what := r.Result
	if r.DryRun {
		what = "would be " + what
	}
	text := fmt.Sprintf("%-10s %s  %s  %s", what, r.ID, r.TenantID, orDash(string(r.Reason)))
	switch {
	case r.Why != "":
		text += "  " + r.Why
	case r.Topic != "":
		text += "  to " + r.Topic
	}
	return printable(text)
}

// A shownDeadLetter is a dead letter as list and show print it.
type shownDeadLetter struct {
	ID            string         `json:"id"`
	TenantID      timer.TenantID `json:"tenantId"`
	Reason        timer.Reason   `json:"reason,omitempty"`
	Detail        string         `json:"detail,omitempty"`
	Topic         string         `json:"topic,omitempty"`
	Position      string         `json:"position,omitempty"`
	OriginalID    string         `json:"originalId,omitempty"`
	FirstAt       stamp          `json:"firstAt,omitzero"`
	LastAt        stamp          `json:"lastAt,omitzero"`
	Count         int            `json:"count"`
	Replays       int            `json:"replays"`
	Truncated     bool           `json:"truncated,omitempty"`
	CorrelationID string         `json:"correlationId,omitempty"`
	shownBody
}

func showDeadLetter(m deadletter.Message) *shownDeadLetter {
	return &shownDeadLetter{
		ID: m.ID, TenantID: m.Tenant, Reason: m.Reason, Detail: m.Detail, Topic: m.Topic, Position: m.Position, OriginalID: m.OriginalID,
		FirstAt: stamp(m.FirstAt), LastAt: stamp(m.LastAt), Count: m.Count, Replays: m.Replays, Truncated: m.Truncated,
		CorrelationID: m.CorrelationID, shownBody: showBody(m.Body),
	}
}

func (s *shownDeadLetter) text() string {
	body, note := s.forPeople()
	if s.Truncated {
		note += ", cut: not the original"
	}
	return fields(
		"id", s.ID, "tenant", s.TenantID, "reason", s.Reason, "detail", s.Detail, "topic", s.Topic, "position", s.Position,
		"original", s.OriginalID, "first at", when(s.FirstAt), "last at", when(s.LastAt), "count", s.Count, "replays", s.Replays,
		"correlation", s.CorrelationID, "body", note,
	) + "\n" + strings.TrimSuffix(body, "\n")
}
