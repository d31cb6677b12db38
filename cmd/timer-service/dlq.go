package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/time/rate"

	"github.com/event-service-agent/timer-service/admin"
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

// detailWidth is how many characters of a detail a table shows.
const detailWidth = 60

// deadLetterFlags select dead letters.
type deadLetterFlags struct {
	Tenant      visited `placeholder:"TENANT" help:"Only those of a tenant; _ for those without a valid tenant."`
	Reason      string  `placeholder:"REASON" default:"" enum:",too_large,not_utf8,not_json,too_deep,duplicate_key,missing_field,bad_field,bad_time,tenant_mismatch,key_mismatch,unknown_type,beyond_horizon,refused,over_quota,not_handled" help:"Only those with this reason, such as beyond_horizon."`
	Since       since   `placeholder:"7d" help:"Only dead letters from within this duration, or since a time in RFC 3339."`
	Correlation string  `placeholder:"ID" help:"Only those with this correlation id."`
}

// path returns the path of the selected dead letters, with a verb behind it.
func (d deadLetterFlags) path(verb string) string {
	if d.Tenant != "" {
		return apiclient.Path("tenants", string(d.Tenant), "dead-letters") + verb
	}
	return apiclient.Path("dead-letters") + verb
}

// query returns the query for a page of at most limit selected dead letters.
func (d deadLetterFlags) query(after string, limit int) string {
	return apiclient.Query("reason", d.Reason, "since", d.Since.text(), "correlationId", d.Correlation, "after", after, "limit", strconv.Itoa(limit))
}

// visit calls do with the dead letters that the flags select, oldest first, without their bodies,
// and at most limit of them unless that is 0. It asks for no more pages than do needs. It tells
// people if there are none, or may be more.
func (d deadLetterFlags) visit(ctx context.Context, e *env, c *apiclient.Client, limit number, do func(admin.DeadLetter) error) error {
	for after, n := "", 0; ; {
		page, err := apiclient.Get[admin.DeadLetters](ctx, c, d.path("")+d.query(after, pageOf(limit, n, timer.MaxPage)))
		if err != nil {
			return err
		}
		for _, l := range page.DeadLetters {
			if err := do(l); err != nil {
				return err
			}
		}
		n += len(page.DeadLetters)
		switch after = page.Next; {
		case after != "" && (limit == 0 || n < int(limit)):
			continue
		case after != "":
			fmt.Fprintf(e.stderr, "there may be more: raise --limit, now %d\n", limit)
		case n == 0 && !e.out.json:
			fmt.Fprintln(e.stderr, "no dead letters")
		}
		return nil
	}
}

// pageOf returns how many of at most limit (0: all) the next page has at most, after n.
func pageOf(limit number, n, page int) int {
	if limit == 0 {
		return page
	}
	return min(page, int(limit)-n)
}

// each calls do with the dead letters of ids. The error says which ids have no dead letter.
func (d deadLetterFlags) each(ctx context.Context, c *apiclient.Client, ids []string, do func(admin.DeadLetter) error) error {
	var missing []string
	for _, id := range ids {
		page, err := apiclient.Get[admin.DeadLetters](ctx, c, d.path("")+d.query("", 1)+"&id="+url.QueryEscape(id))
		if err != nil {
			return err
		}
		if len(page.DeadLetters) == 0 {
			missing = append(missing, id)
			continue
		}
		if err := do(page.DeadLetters[0]); err != nil {
			return err
		}
	}
	return noDeadLetters(missing)
}

// noDeadLetters returns an error that names ids, or nil if there are none.
func noDeadLetters(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return &absentError{fmt.Sprintf("dead letters %q", ids), "dlq list"}
}

// deadLetterPath returns the path of a dead letter.
func deadLetterPath(l admin.DeadLetter) string {
	return apiclient.Path("tenants", string(l.TenantID), "dead-letters", l.ID)
}

type dlqListCmd struct {
	deadLetterFlags
	Limit number `default:"100" help:"How many at most; 0 is all."`
}

// Help is printed below the summary.
func (dlqListCmd) Help() string {
	return `Asks a running service; nothing is removed. With -o json there is one object a line,
with the body of the original, and no output if there is no dead letter.

Examples:

    timer-service dlq list
    timer-service dlq list --tenant acme --reason beyond_horizon --since 24h
    timer-service dlq list --correlation req-7
    timer-service dlq list --tenant acme --limit 0 -o json`
}

// Run prints the dead letters.
func (d *dlqListCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	rows := e.out.rows("id", "tenant", "reason", "last at", "count", "detail", "when")
	err := d.visit(ctx, e, c, d.Limit, func(l admin.DeadLetter) (err error) {
		if e.out.json { // the list has no bodies
			l, err = apiclient.Get[admin.DeadLetter](ctx, c, deadLetterPath(l))
		}
		rows.add(l, printable(l.ID), l.TenantID, printable(string(l.Reason)), l.LastAt, l.Count, short(l.Detail, detailWidth), fromNow(l.LastAt))
		return err
	})
	if err == nil {
		rows.end(e, "", "")
	}
	return err
}

type dlqShowCmd struct {
	IDs    []string `arg:"" name:"id" help:"Ids of dead letters, as dlq list prints them."`
	Tenant visited  `placeholder:"TENANT" help:"Tenant of the dead letters, for brokers that can't list their topics."`
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
func (d *dlqShowCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	flags, separator := deadLetterFlags{Tenant: d.Tenant}, ""
	return flags.each(ctx, c, d.IDs, func(l admin.DeadLetter) error {
		l, err := apiclient.Get[admin.DeadLetter](ctx, c, deadLetterPath(l))
		if err == nil {
			e.out.print(&shownDeadLetter{l, separator})
		}
		separator = "\n"
		return err
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
func (d *dlqReplayCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	return d.run(ctx, e, c, deadletter.Replayed, "replay")
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
func (d *dlqDiscardCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	return d.run(ctx, e, c, deadletter.Discarded, "discard")
}

// removeFlags are the flags of replay and discard.
type removeFlags struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of dead letters, as dlq list prints them."`
	deadLetterFlags
	All    bool      `help:"All dead letters of all tenants, unless another flag selects some."`
	Limit  number    `help:"How many at most, oldest first; 0 is all." default:"0"`
	Rate   perSecond `placeholder:"N" help:"At most so many dead letters a second; 0 is no limit."`
	DryRun bool      `help:"Only print which are selected."`
}

// Validate refuses flags that select nothing, or exclude each other.
func (r *removeFlags) Validate() error {
	switch {
	case !r.All && len(r.IDs) == 0 && r.deadLetterFlags == deadLetterFlags{}:
		return errors.New("select some with ids, --tenant, --reason, --correlation or --since, or all with --all")
	case r.All && len(r.IDs) > 0:
		return errors.New("ids and --all exclude each other; give one")
	}
	return nil
}

// run replays or discards the dead letters, and prints a line for each.
func (r *removeFlags) run(ctx context.Context, e *env, c *apiclient.Client, did, verb string) error {
	if r.DryRun {
		would := func(l admin.DeadLetter) error {
			e.out.print(&removed{DryRun: true, RemovedDeadLetter: admin.RemovedDeadLetter{ID: l.ID, TenantID: l.TenantID, Reason: l.Reason, Result: did}})
			return nil
		}
		if len(r.IDs) > 0 {
			return r.each(ctx, c, r.IDs, would)
		}
		return r.visit(ctx, e, c, r.Limit, would)
	}
	var missing []string
	refused, limiter := 0, rate.NewLimiter(rate.Inf, timer.MaxPage)
	if r.Rate > 0 {
		limiter = rate.NewLimiter(rate.Limit(r.Rate), max(1, min(int(r.Rate), timer.MaxPage)))
	}
	remove := func(after string, limit int, more string) (page admin.RemovedDeadLetters, err error) {
		if err = limiter.WaitN(ctx, limit); err == nil {
			page, err = apiclient.Do[admin.RemovedDeadLetters](ctx, c, http.MethodPost, r.path(":"+verb)+r.query(after, limit)+more, nil)
		}
		if ctx.Err() != nil {
			return page, fmt.Errorf("%w; run it again for the other dead letters", errInterrupted)
		}
		for _, l := range page.DeadLetters {
			if l.Result == deadletter.Refused {
				refused++
			}
			e.out.print(&removed{RemovedDeadLetter: l})
		}
		return page, cmp.Or(err, e.out.failed())
	}
	for _, id := range r.IDs {
		page, err := remove("", 1, "&id="+url.QueryEscape(id))
		if err != nil {
			return err
		}
		if len(page.DeadLetters) == 0 {
			missing = append(missing, id)
		}
	}
	if len(r.IDs) == 0 {
		if err := r.pages(e, limiter.Burst(), remove); err != nil {
			return err
		}
	}
	if refused > 0 {
		return fmt.Errorf("%d dead letters were refused, and were not changed", refused)
	}
	return noDeadLetters(missing)
}

// pages calls remove for page after page, of at most so many dead letters. The first pages are
// small, since an action that can't be reported should not be done.
func (r *removeFlags) pages(e *env, most int, remove func(after string, limit int, more string) (admin.RemovedDeadLetters, error)) error {
	shown := newProgress(e, "dead letters")
	for after, size := "", 1; ; size = min(2*size, most) {
		page, err := remove(after, pageOf(r.Limit, shown.n, size), "")
		if err != nil {
			return err
		}
		shown.add(len(page.DeadLetters))
		switch after = page.Next; {
		case after != "" && (r.Limit == 0 || shown.n < int(r.Limit)):
			continue
		case after != "":
			fmt.Fprintf(e.stderr, "there may be more: raise --limit, now %d\n", r.Limit)
		case shown.n == 0 && !e.out.json:
			fmt.Fprintln(e.stderr, "no dead letters")
		}
		return nil
	}
}

// A removed is what replay or discard did with a dead letter, or would do.
type removed struct {
	DryRun bool `json:"dryRun,omitempty"`
	admin.RemovedDeadLetter
}

func (r *removed) text() string {
	what := r.Result
	if r.DryRun {
		what = "would be " + what
	}
	return printable(strings.TrimSpace(fmt.Sprintf("%-10s %s  %s  %s  %s", what, r.ID, r.TenantID, r.Reason, r.Why)))
}

// A shownDeadLetter is a dead letter as show prints it.
type shownDeadLetter struct {
	admin.DeadLetter
	separator string // between it and the one before
}

func (s *shownDeadLetter) text() string {
	body, note := readable(s.Body)
	if s.Truncated {
		note += ", cut: not the original"
	}
	return s.separator + fields(
		"id", s.ID, "tenant", s.TenantID, "reason", s.Reason, "detail", s.Detail, "topic", s.Topic, "position", s.Position,
		"original", s.OriginalID, "first at", when(s.FirstAt), "last at", when(s.LastAt), "count", s.Count, "replays", s.Replays,
		"correlation", s.CorrelationID, "body", note,
	) + strings.TrimSuffix(body, "\n")
}
