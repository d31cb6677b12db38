package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type parkedCmd struct {
	List    parkedListCmd    `cmd:"" help:"List parked events, newest first."`
	Show    parkedShowCmd    `cmd:"" help:"Show a parked event with its body."`
	Retry   parkedRetryCmd   `cmd:"" help:"Put parked events back into the outbox, as if they were new."`
	Discard parkedDiscardCmd `cmd:"" help:"Delete parked events for good."`
}

// parkedFlags select parked events.
type parkedFlags struct {
	Reason      string `placeholder:"TEXT" help:"Only those whose reason has this text, in upper or lower case."`
	Since       since  `placeholder:"7d" help:"Only events that were parked within this duration, or since a time in RFC 3339."`
	Correlation string `placeholder:"ID" help:"Only those with this correlation id."`
}

// changeFlags are the flags of retry and discard.
type changeFlags struct {
	Seqs   []int64        `arg:"" optional:"" name:"seq" help:"Their numbers, as parked list prints them."`
	All    bool           `help:"All that are parked now and that the other flags select, instead of numbers."`
	Tenant timer.TenantID `placeholder:"TENANT" help:"Only those of this tenant."`
	parkedFlags
}

type (
	parkedListCmd struct {
		Tenant timer.TenantID `arg:"" optional:"" help:"Only those of this tenant."`
		parkedFlags
		Limit int    `default:"100" help:"How many at most, up to 1000."`
		After number `placeholder:"SEQ" help:"Only those before this number: the page after the one that ends with it."`
	}
	parkedShowCmd struct {
		Seq int64 `arg:"" help:"Its number, as parked list prints it."`
	}
	parkedRetryCmd   struct{ changeFlags }
	parkedDiscardCmd struct{ changeFlags }
)

// Validate refuses flags that do not say which events are meant.
func (c *changeFlags) Validate() error {
	switch {
	case c.All == (len(c.Seqs) > 0):
		return errors.New("give numbers, or --all, and not both")
	case !c.All && (c.Tenant != "" || c.parkedFlags != parkedFlags{}):
		return errors.New("--tenant, --reason, --since and --correlation go with --all")
	}
	return nil
}

// Help is printed below the summary.
func (parkedListCmd) Help() string {
	return `Parked are events that the broker refused again and again: their timers have fired, and
no consumer was notified. Repair the cause, then retry them.

Examples:

    timer-service parked list
    timer-service parked list acme -o json
    timer-service parked list --reason "too large" --since 24h`
}

// Help is printed below the summary.
func (parkedShowCmd) Help() string { return "Examples:\n\n    timer-service parked show 17" }

// Help is printed below the summary.
func (parkedRetryCmd) Help() string {
	return "Examples:\n\n    timer-service parked retry 17 18\n    timer-service parked retry --all --tenant acme --since 24h"
}

// Help is printed below the summary.
func (parkedDiscardCmd) Help() string {
	return "Their timers stay as they are: no consumer learns that they fired.\n\nExamples:\n\n    timer-service parked discard 17\n    timer-service parked discard --all --reason \"too large\""
}

// Run prints the events.
func (p *parkedListCmd) Run(ctx context.Context, e *env, r reader) error {
	page, err := p.list(ctx, r.Client, p.Tenant, fmt.Sprint(p.After), p.Limit)
	if err != nil {
		return err
	}
	rows := e.out.rows("seq", "tenant", "service call", "parked at", "attempts", "reason", "when")
	for _, s := range page.Parked {
		rows.add(s, s.Seq, s.TenantID, s.ServiceCallID, s.ParkedAt, s.Attempts, short(s.Reason, detailWidth), fromNow(s.ParkedAt))
	}
	rows.end(e, "no parked events", page.Next)
	return nil
}

// list returns a page of the parked events that the flags select, of a tenant or of all.
func (f parkedFlags) list(ctx context.Context, c *apiclient.Client, tenant timer.TenantID, after string, limit int) (admin.ParkedEvents, error) {
	return apiclient.Get[admin.ParkedEvents](ctx, c, apiclient.Path("parked")+apiclient.Query(
		"tenant", string(tenant), "reason", f.Reason, "since", f.Since.text(), "correlationId", f.Correlation, "after", after, "limit", strconv.Itoa(limit)))
}

// Run prints the event.
func (p *parkedShowCmd) Run(ctx context.Context, e *env, r reader) error {
	event, err := apiclient.Get[admin.ParkedEvent](ctx, r.Client, parkedPath(p.Seq))
	if err != nil {
		return noParked(err, p.Seq)
	}
	e.out.print(&shownParked{event})
	return nil
}

// noParked returns err, or an error that says that there is no parked event with this number.
func noParked(err error, seq int64) error {
	if errors.Is(err, timer.ErrNotFound) {
		return &absentError{fmt.Sprintf("parked event %d", seq), "parked list"}
	}
	return err
}

// Run retries the events.
func (p *parkedRetryCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	return p.run(ctx, e, c, "retried", http.MethodPost, ":retry")
}

// Run discards the events.
func (p *parkedDiscardCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	return p.run(ctx, e, c, "discarded", http.MethodDelete, "")
}

// run sends a request for each event, with a method and a verb behind its path, and prints a
// line for it. With --all it goes from the newest to the oldest, so that it does not meet again
// what is parked again.
func (c *changeFlags) run(ctx context.Context, e *env, to *apiclient.Client, did, method, pathVerb string) error {
	seqs, after, missing := c.Seqs, "", error(nil)
	for more := true; more; more = after != "" {
		if c.All {
			page, err := c.list(ctx, to, c.Tenant, after, timer.MaxPage)
			if err != nil {
				return err
			}
			seqs, after = nil, page.Next
			for _, event := range page.Parked {
				seqs = append(seqs, event.Seq)
			}
		}
		for _, seq := range seqs {
			switch _, err := to.Send(ctx, method, parkedPath(seq)+pathVerb, nil); {
			case errors.Is(err, timer.ErrNotFound):
				missing = errors.Join(missing, noParked(err, seq))
			case err != nil:
				return err
			default:
				e.out.print(&changedEvent{did, seq})
			}
		}
	}
	return missing
}

func parkedPath(seq int64) string { return apiclient.Path("parked", strconv.FormatInt(seq, 10)) }

// A changedEvent is a parked event that was retried or discarded.
type changedEvent struct {
	Result string `json:"result"`
	Seq    int64  `json:"seq"`
}

func (c *changedEvent) text() string { return fmt.Sprintf("%-10s %d", c.Result, c.Seq) }

// A shownParked is a parked event as show prints it.
type shownParked struct{ admin.ParkedEvent }

func (s *shownParked) text() string {
	body, note := readable(s.Body)
	return fields(
		"seq", s.Seq, "event id", s.ID, "tenant", s.TenantID, "service call", s.ServiceCallID, "fired at", when(s.AppendedAt), "parked at", when(s.ParkedAt),
		"attempts", s.Attempts, "reason", s.Reason, "correlation", s.CorrelationID, "body", note,
	) + body
}
