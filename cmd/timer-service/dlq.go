package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/event-service-agent/timer-service/admin"
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
	Tenant      visited  `placeholder:"TENANT" help:"Only those of a tenant; _ for those without a valid tenant."`
	Reason      []string `placeholder:"REASON" enum:"too_large,not_utf8,not_json,too_deep,duplicate_key,missing_field,bad_field,bad_time,tenant_mismatch,key_mismatch,unknown_type,beyond_horizon,refused,over_quota" help:"Only those with this reason, such as beyond_horizon; several with commas between them."`
	Since       since    `placeholder:"7d" help:"Only dead letters from within this duration, or since a time in RFC 3339."`
	Correlation string   `placeholder:"ID" help:"Only those with this correlation id."`
}

// selected returns the selection of the flags and of ids.
func (d *deadLetterFlags) selected(ids []string, limit number) deadLetters {
	return deadLetters{
		tenant: timer.TenantID(d.Tenant), ids: ids, reasons: d.Reason, since: time.Time(d.Since), correlation: d.Correlation, limit: int(limit),
	}
}

// DeadLetters is a selection of a service's dead letters.
type deadLetters struct {
	tenant       timer.TenantID // empty: all
	ids, reasons []string       // none: all
	since        time.Time
	correlation  string
	limit        int // 0: no limit
}

// find returns the dead letters, oldest first, without their bodies, and whether there may be
// more than the limit. The error wraps [errNoDeadLetter] if one of the ids has no dead
// letter.
func (d deadLetters) find(ctx context.Context, c *apiclient.Client) (found []admin.DeadLetter, more bool, err error) {
	path, reason := apiclient.Path("dead-letters"), ""
	if d.tenant != "" {
		path = apiclient.Path("tenants", string(d.tenant), "dead-letters")
	}
	if len(d.reasons) == 1 {
		reason = d.reasons[0]
	}
	missing := slices.Clone(d.ids)
	for after := ""; ; {
		page, err := apiclient.Get[admin.DeadLetters](ctx, c, path+apiclient.Query(
			"reason", reason, "since", instant(d.since).text(), "correlationId", d.correlation, "after", after, "limit", strconv.Itoa(timer.MaxPage)))
		if err != nil {
			return found, false, err
		}
		for _, l := range page.DeadLetters {
			switch {
			case len(d.ids) > 0 && !slices.Contains(d.ids, l.ID), len(d.reasons) > 0 && !slices.Contains(d.reasons, string(l.Reason)):
				continue
			case d.limit > 0 && len(found) == d.limit:
				return found, true, nil
			}
			found = append(found, l)
			missing = slices.DeleteFunc(missing, func(id string) bool { return id == l.ID })
		}
		if after = page.Next; after == "" {
			return found, false, noDeadLetters(missing)
		}
	}
}

// noDeadLetters returns an error that names ids, or nil if there are none.
func noDeadLetters(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	for i, id := range ids {
		ids[i] = timer.Quote(id)
	}
	return fmt.Errorf("%w: %s", errNoDeadLetter, strings.Join(ids, ", "))
}

// visit calls do with the dead letters of a service. It tells people if there are none, or
// more than the limit.
func (d deadLetters) visit(ctx context.Context, e *env, c *apiclient.Client, verb string, do func([]admin.DeadLetter) error) error {
	found, more, err := d.find(ctx, c)
	if more {
		fmt.Fprintf(e.stderr, "there may be more: raise --limit, now %d\n", d.limit)
	}
	if err = errors.Join(err, do(found)); errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted; the other dead letters are unchanged: %w", err)
	}
	return nameTenant(verb, err)
}

// nameTenant returns an error of the service. If the error asks for a tenant, it becomes a
// mistake of the user.
func nameTenant(verb string, err error) error {
	if errors.Is(err, timer.ErrInvalid) && strings.Contains(err.Error(), broker.ErrNameTenant.Error()) {
		return wrong(verb, "%w with --tenant", broker.ErrNameTenant)
	}
	return err
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
	return d.selected(nil, d.Limit).visit(ctx, e, c, "dlq list", func(found []admin.DeadLetter) (err error) {
		rows := e.out.rows("id", "tenant", "reason", "last at", "count", "detail", "when")
		for _, l := range found {
			if e.out.json {
				if l, err = apiclient.Get[admin.DeadLetter](ctx, c, deadLetterPath(l)); err != nil { // the list has no bodies
					return err
				}
			}
			rows.add(l, printable(l.ID), l.TenantID, printable(orDash(string(l.Reason))), orDash(l.LastAt), l.Count, short(l.Detail, detailWidth), fromNow(l.LastAt))
		}
		rows.end(e, "no dead letters", "")
		return nil
	})
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
	flags := deadLetterFlags{Tenant: d.Tenant}
	return flags.selected(d.IDs, 0).visit(ctx, e, c, "dlq show", func(found []admin.DeadLetter) error {
		for i, l := range found {
			l, err := apiclient.Get[admin.DeadLetter](ctx, c, deadLetterPath(l))
			if err != nil {
				return err
			}
			if i > 0 && !e.out.json {
				fmt.Fprintln(e.out.w)
			}
			e.out.print(&shownDeadLetter{l})
		}
		return nil
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
	return d.run(ctx, e, "dlq replay", deadletter.Replayed, http.MethodPost, ":replay")
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
	return d.run(ctx, e, "dlq discard", deadletter.Discarded, http.MethodDelete, "")
}

// removeFlags are the flags of replay and discard.
type removeFlags struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of dead letters, as dlq list prints them."`
	deadLetterFlags
	All    bool      `help:"All dead letters of all tenants, unless another flag selects some."`
	Limit  number    `help:"How many at most, oldest first; 0 is all." default:"0"`
	Rate   perSecond `placeholder:"N" help:"At most so many dead letters a second; 0 is no limit."`
	DryRun bool      `help:"Only print what would be done."`
}

// run sends a request for each dead letter, with a method and a verb behind its path, and
// prints a line for it.
func (r *removeFlags) run(ctx context.Context, e *env, verb, did, method, pathVerb string) error {
	selected := r.selected(r.IDs, r.Limit)
	switch {
	case !r.All && selected.tenant == "" && len(selected.ids)+len(selected.reasons) == 0 && selected.correlation == "" && selected.since.IsZero():
		return wrong(verb, "select some with ids, --tenant, --reason, --correlation or --since, or all with --all")
	case r.All && len(selected.ids) > 0:
		return wrong(verb, "ids and --all exclude each other; give one")
	}
	c, err := e.service(ctx)
	if err != nil {
		return err
	}
	return selected.visit(ctx, e, c, verb, func(all []admin.DeadLetter) error {
		return r.remove(ctx, e, c, all, did, method, pathVerb)
	})
}

// remove sends the requests one by one.
func (r *removeFlags) remove(ctx context.Context, e *env, c *apiclient.Client, all []admin.DeadLetter, did, method, pathVerb string) error {
	if len(all) == 0 && !e.out.json {
		fmt.Fprintln(e.stderr, "no dead letters")
	}
	p := newProgress(e, "dead letters")
	if isTerminal(e.out.w) {
		p = nil // the lines show the progress
	}
	defer p.clear()
	limiter := rate.NewLimiter(rate.Inf, 1)
	if r.Rate > 0 && !r.DryRun {
		limiter.SetLimit(rate.Limit(r.Rate))
	}
	var gone []string
	refused := 0
	for _, l := range all {
		if err := limiter.Wait(ctx); err != nil {
			return errors.Join(ctx.Err(), err)
		}
		done := &removed{Result: did, DryRun: r.DryRun, ID: l.ID, TenantID: l.TenantID, Reason: l.Reason}
		var err error
		if r.DryRun {
			err = replayable(l, method)
		} else {
			_, err = c.Send(ctx, method, deadLetterPath(l)+pathVerb, nil)
		}
		why, stays := errors.AsType[apiclient.Conflict](err)
		switch {
		case stays:
			refused++
			done.Result, done.Why = deadletter.Refused, strings.TrimPrefix(string(why), "the dead letter stays as it is: ")
		case errors.Is(err, timer.ErrNotFound):
			gone = append(gone, l.ID)
			continue
		case err != nil:
			return err
		}
		e.out.print(done)
		p.add(1)
		if err := e.out.failed(); err != nil { // an action that can't be reported must not be done
			return err
		}
	}
	if refused > 0 && !r.DryRun {
		return fmt.Errorf("%d of %d dead letters were refused, and were not changed", refused, len(all)-len(gone))
	}
	return noDeadLetters(gone)
}

// replayable returns why a dead letter would not be replayed, if method asks for a replay.
func replayable(l admin.DeadLetter, method string) error {
	if err := (deadletter.Message{Replays: l.Replays, Truncated: l.Truncated}).Replayable(); method == http.MethodPost && err != nil {
		return apiclient.Conflict(err.Error())
	}
	return nil
}

// A removed is what replay or discard did with a dead letter, or would do.
type removed struct {
	Result   string         `json:"result"`
	DryRun   bool           `json:"dryRun,omitempty"`
	ID       string         `json:"id"`
	TenantID timer.TenantID `json:"tenantId"`
	Reason   timer.Reason   `json:"reason,omitempty"`
	Why      string         `json:"why,omitempty"` // why it was refused
}

func (r *removed) text() string {
	what := r.Result
	if r.DryRun {
		what = "would be " + what
	}
	text := fmt.Sprintf("%-10s %s  %s  %s", what, r.ID, r.TenantID, orDash(string(r.Reason)))
	if r.Why != "" {
		text += "  " + r.Why
	}
	return printable(text)
}

// A shownDeadLetter is a dead letter as show prints it.
type shownDeadLetter struct{ admin.DeadLetter }

func (s *shownDeadLetter) text() string {
	body, note := readable(s.Body)
	if s.Truncated {
		note += ", cut: not the original"
	}
	return fields(
		"id", s.ID, "tenant", s.TenantID, "reason", s.Reason, "detail", s.Detail, "topic", s.Topic, "position", s.Position,
		"original", s.OriginalID, "first at", when(s.FirstAt), "last at", when(s.LastAt), "count", s.Count, "replays", s.Replays,
		"correlation", s.CorrelationID, "body", note,
	) + "\n" + strings.TrimSuffix(body, "\n")
}
