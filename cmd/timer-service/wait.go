package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// These are results of a command, in addition to those of [admin.Command].
const (
	resultPublished = "published" // the broker made it durable
	resultReached   = "reached"   // the timer fired
)

// A publishResult is a command that a service has published, and its result.
type publishResult struct {
	admin.Command
	Type string `json:"type"`

	EventID    string `json:"eventId,omitempty"`
	ReachedAt  string `json:"reachedAt,omitempty"`
	LatenessMS *int64 `json:"latenessMs,omitempty"` // how late it fired, by the service's clock
}

func newPublished(kind string, tenant timer.TenantID, call timer.ServiceCallID) *publishResult {
	return &publishResult{Type: kind, Command: admin.Command{TenantID: tenant, ServiceCallID: call}}
}

func (p *publishResult) key() timer.Key {
	return timer.Key{TenantID: p.TenantID, ServiceCallID: p.ServiceCallID}
}

func (p *publishResult) text() string {
	if p.Result == resultReached {
		return fmt.Sprintf("%-10s %s  %s late", p.Result, p.key(), lateness(*p.LatenessMS))
	}
	what, was := "due "+when(p.DueAt), ""
	if p.Type == envelope.TypeCancelTimer {
		what, was = p.Type, "  ("+beforeText(p.Before)+")"
	}
	return fmt.Sprintf("%-10s %s  %s  id %s%s", p.Result, p.key(), what, p.ID, was)
}

// beforeText describes for people the timer before it is canceled.
func beforeText(t *admin.Timer) string {
	switch {
	case t == nil:
		return "no such timer, the service keeps a tombstone"
	case t.State == timer.Canceled:
		return "canceled before, at " + when(t.CanceledAt)
	}
	return "was due at " + when(t.DueAt)
}

// waitOptions name the event that a verb waits for, and the longest wait.
type waitOptions struct {
	wait       bool // until the command took effect
	untilFired bool // and then until the timer fired
	timeout    timeout
}

// maxWait is the longest time that the service waits for a command to take effect.
const maxWait = 20 * time.Second

// publish makes the service publish a command, and prints it. If the flags say so, it waits
// until the command took effect, and then until the timer fires, and prints that. The service
// waits for at most maxWait, the verb for the rest of the timeout.
func (p *publishResult) publish(ctx context.Context, e *env, c *apiclient.Client, w waitOptions, method string, request []byte, query ...string) (err error) {
	if w.wait {
		query = append(query, "wait", min(time.Duration(w.timeout), maxWait).String())
	}
	key, began := p.key(), e.now()
	if p.Command, err = apiclient.Do[admin.Command](ctx, c, method, apiclient.TimerPath(key)+apiclient.Query(query...), request); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	waits := w.untilFired || w.wait && p.Result == resultPublished
	if !waits || !e.out.json {
		e.out.print(p) // before the wait, which may be long
	}
	switch {
	case w.untilFired:
		err = p.await(ctx, e.now, c, w)
	case waits:
		err = p.awaitEffect(ctx, c, w, began.Add(time.Duration(w.timeout)).Sub(e.now()))
	}
	if waits && (err == nil || e.out.json) {
		e.out.print(p)
	}
	if errors.Is(err, errNoAnswer) {
		err = fmt.Errorf("%w; %s: see %q", err, p.delayedBy(ctx, c), program+" get "+string(key.TenantID)+" "+string(key.ServiceCallID))
	}
	return err
}

// errNoAnswer says that nothing is known of a timer within the timeout.
var errNoAnswer = errors.New("no answer")

func (w waitOptions) expired(key timer.Key) error {
	return fmt.Errorf("%v: %w within %s", key, errNoAnswer, config.FormatDuration(time.Duration(w.timeout)))
}

// reasonTimeout is how long the service may take to name the cause of a delay.
const reasonTimeout = 2 * time.Second

// delayedBy asks for the cause of the delay of a timer or its command, as far as the token may know.
func (p *publishResult) delayedBy(ctx context.Context, c *apiclient.Client) string {
	ctx, cancel := context.WithTimeout(ctx, reasonTimeout)
	defer cancel()
	tenant := string(p.TenantID)
	t, err := apiclient.Get[admin.Timer](ctx, c, apiclient.TimerPath(p.key()))
	handled := err == nil && t.CommandID == p.ID
	of, _ := apiclient.Get[admin.Tenant](ctx, c, apiclient.Path("tenants", tenant)) // a missing answer is no reason
	quotas, _ := apiclient.Get[admin.Quotas](ctx, c, apiclient.Path("quotas")+apiclient.Query("tenant", tenant))
	q := append(quotas.Tenants, admin.TenantQuota{})[0]
	is, _ := c.Readiness(ctx)
	red := slices.IndexFunc(is.Parts, func(p admin.ReadinessPart) bool { return !p.OK })
	switch {
	case red >= 0:
		return fmt.Sprintf("the %s of the service does not work (%s)", is.Parts[red].Part, cmp.Or(is.Parts[red].Reason, "ask health with its token"))
	case handled && of.Pause != nil:
		return fmt.Sprintf("firing of %s, or of all tenants, is paused %s", tenant, pauseText(*of.Pause))
	case handled && q.Limits.FireRate > 0:
		return fmt.Sprintf("its quota lets %.3g timers of %s fire in a second", q.Limits.FireRate, tenant)
	case !handled && q.Waiting > 0:
		return fmt.Sprintf("%s exceeds its quota, and %d of its commands wait for that", tenant, q.Waiting)
	}
	return "the service may be busy or down"
}

// These are the shortest and the longest interval between polls for the event of a timer.
const (
	eventInterval    = 100 * time.Millisecond
	replacedInterval = time.Second // a newer command may replace the timer
)

// await waits until the timer fired, and adds its event to p. Another end of the timer is an
// error, and so is a timeout after the due time.
func (p *publishResult) await(ctx context.Context, now func() time.Time, c *apiclient.Client, w waitOptions) error {
	due := parseTime(p.DueAt)
	waiting, cancel := context.WithTimeout(ctx, max(due.Sub(now()), 0)+time.Duration(w.timeout))
	defer cancel()
	for pause.For(waiting, max(eventInterval, min(replacedInterval, due.Sub(now())))) {
		switch t, err := apiclient.Get[admin.Timer](waiting, c, apiclient.TimerPath(p.key())); {
		case err != nil, p.Result == resultPublished && t.CommandID != p.ID: // it was not handled yet, or the service is busy
		case t.CommandID != p.ID, t.State == timer.Canceled:
			return fmt.Errorf("%s: a newer command replaced this one", p.key())
		case t.State == timer.Expired:
			return fmt.Errorf("%s: %s, before it could fire", p.key(), marked(t))
		case t.State == timer.Reached:
			p.Result, p.EventID, p.ReachedAt, p.LatenessMS = resultReached, t.Event.ID, t.ReachedAt, t.LatenessMS
			return nil
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: stopped waiting; the timer is still scheduled: %w", p.key(), errInterrupted)
	}
	return w.expired(p.key())
}

// awaitEffect waits for a while until the command took effect, and notes that as the result. That it
// can have no effect any more is an error, and so is the end of the while.
func (p *publishResult) awaitEffect(ctx context.Context, c *apiclient.Client, w waitOptions, left time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, max(left, 0))
	defer cancel()
	own := timer.Version{TimestampMS: p.TimestampMS, CommandID: p.ID}
	for pause.For(waiting, eventInterval) {
		switch t, err := apiclient.Get[admin.Timer](waiting, c, apiclient.TimerPath(p.key())); {
		case err != nil: // it was not handled yet, or the service is busy
		case t.CommandID == p.ID && p.Type == envelope.TypeCancelTimer:
			p.Result = timer.DidCancel.String()
			return nil
		case t.CommandID == p.ID:
			p.Result = timer.DidSchedule.String()
			return nil
		case t.State.Marked():
			return fmt.Errorf("%s: already %s", p.key(), marked(t))
		case own.Compare(timer.Version{TimestampMS: t.TimestampMS, CommandID: t.CommandID}) < 0:
			return fmt.Errorf("%s: a newer command replaced this one", p.key())
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: stopped waiting; the command is published: %w", p.key(), errInterrupted)
	}
	return w.expired(p.key())
}

// marked says for people when a timer was reached or expired.
func marked(t admin.Timer) string {
	return strings.ToLower(string(t.State)) + " at " + when(cmp.Or(t.ReachedAt, t.ExpiredAt))
}
