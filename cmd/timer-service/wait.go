package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// These are the results of a command, as far as they are known.
const (
	resultPublished  = "published"  // the broker made it durable
	resultReached    = "reached"    // the timer fired
	resultExpired    = "expired"    // the timer expired before it could fire
	resultCanceled   = "canceled"   // the timer is canceled
	resultIgnored    = "ignored"    // no effect: the timer fired before, or a newer command came
	resultDeadLetter = "deadLetter" // the service refused it
	resultTimeout    = "timeout"    // no answer arrived in time
)

// A published is a command that a service has published, and its result.
type published struct {
	admin.Command
	Type   string      `json:"type"`
	Before *shownTimer `json:"before,omitempty"` // the timer that is to be canceled, if there was one

	EventID    string       `json:"eventId,omitempty"`
	ReachedAt  string       `json:"reachedAt,omitempty"`
	ExpiredAt  string       `json:"expiredAt,omitempty"`
	LatenessMS *int64       `json:"latenessMs,omitempty"` // how late it fired, by the service's clock
	Reason     timer.Reason `json:"reason,omitempty"`     // of a dead letter
	Detail     string       `json:"detail,omitempty"`

	was string // Before for people
}

func newPublished(kind string, tenant timer.TenantID, call timer.ServiceCallID) *published {
	return &published{Type: kind, Command: admin.Command{TenantID: tenant, ServiceCallID: call}}
}

func (p *published) key() timer.Key {
	return timer.Key{TenantID: p.TenantID, ServiceCallID: p.ServiceCallID}
}

func (p *published) text() string {
	what := p.Type
	if p.DueAt != "" {
		what = "due " + when(p.DueAt)
	}
	line := fmt.Sprintf("%-10s %s  %s", p.Result, p.key(), what)
	if p.ID != "" {
		line += "  id " + p.ID
	}
	if p.was != "" {
		line += "  (" + p.was + ")"
	}
	return line
}

// answer returns the result of the command for people.
func (p *published) answer() string {
	line := fmt.Sprintf("%-10s %s", p.Result, p.key())
	if p.LatenessMS != nil {
		line += fmt.Sprintf("  %s late", lateness(*p.LatenessMS))
	}
	return line
}

// waitFlags are the flags of verbs that may wait for the result of a command.
type waitFlags struct {
	Wait    bool      `help:"Wait for what becomes of it, and print that."`
	Timeout *duration `placeholder:"30s" help:"How long to wait, after the due time if there is one."`
}

const defaultTimeout = duration(30 * time.Second)

// Validate refuses a timeout that has no effect.
func (w waitFlags) Validate() error {
	switch {
	case w.Timeout != nil && !w.Wait:
		return errors.New("--timeout needs --wait")
	case w.Timeout != nil && *w.Timeout <= 0:
		return errors.New("--timeout must be more than 0, such as 30s")
	}
	return nil
}

// publish makes the service publish a command, and prints it. If the flags say so, it then
// waits for the result and prints that.
func (w waitFlags) publish(ctx context.Context, e *env, c *apiclient.Client, p *published, method, query string, request []byte) error {
	key := p.key()
	command, err := apiclient.Do[admin.Command](ctx, c, method, apiclient.TimerPath(key)+query, request)
	if _, is := errors.AsType[apiclient.Conflict](err); is {
		p.Result = resultIgnored
		e.out.print(p)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if p.Command = command; !w.Wait || !e.out.json {
		e.out.print(p) // before the wait, which may be long
	}
	if !w.Wait {
		return nil
	}
	w.Timeout = cmp.Or(w.Timeout, new(defaultTimeout))
	err = p.await(ctx, e.now, c, time.Duration(*w.Timeout))
	switch {
	case e.out.json:
		e.out.print(p)
	case err == nil:
		fmt.Fprintln(e.out.w, p.answer())
	}
	return err
}

// These are the intervals between polls for the result of a command: first until it was
// handled, then whether a newer command replaced it.
const (
	outcomeInterval  = 100 * time.Millisecond
	replacedInterval = time.Second
	refusedTries     = 10 // polls before one for its dead letter, which takes longer
)

// await waits until the timer fired, or is canceled if the command asked for that, and adds
// the result to p. Any other result is an error. So is a timeout after the due time without a
// result.
func (p *published) await(ctx context.Context, now func() time.Time, c *apiclient.Client, timeout time.Duration) error {
	due := parseTime(p.DueAt)
	waiting, cancel := context.WithTimeout(ctx, max(due.Sub(now()), 0)+timeout)
	defer cancel()
	interval := outcomeInterval
	for tries := 1; pause.For(waiting, interval); tries++ {
		t, err := getTimer(waiting, c, p.key())
		if err == nil {
			if decided, err := p.judge(t); decided {
				return err
			}
		}
		switch {
		case t.CommandID == p.ID:
			interval = max(outcomeInterval, min(replacedInterval, due.Sub(now())))
		// Else the command was not handled yet, or the service is busy or unreachable.
		case tries%refusedTries == 0:
			if err := p.refused(waiting, c); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: stopped waiting; the timer is still scheduled: %w", p.key(), errInterrupted)
	}
	p.Result = resultTimeout
	return fmt.Errorf("%s: no answer within %s of the due time; the service may be down: see %q",
		p.key(), config.FormatDuration(timeout), fmt.Sprintf("%s get %s %s", program, p.TenantID, p.ServiceCallID))
}

// judge adds the result of the command, as its timer shows it, and reports whether that is
// final.
func (p *published) judge(t admin.Timer) (decided bool, err error) {
	version := timer.Version{TimestampMS: p.TimestampMS, CommandID: p.ID}
	entry := timer.Entry{State: t.State, Version: timer.Version{TimestampMS: t.TimestampMS, CommandID: t.CommandID}}
	outcome := entry.ScheduleOutcome(version)
	if p.Type == envelope.TypeCancelTimer {
		outcome = entry.CancelOutcome(version)
	}
	switch {
	case outcome == timer.DidCancel:
		p.Result = resultCanceled
		return true, nil
	case t.State == timer.Reached && entry.Version == version:
		p.Result, p.EventID, p.ReachedAt, p.LatenessMS = resultReached, t.Event.ID, t.ReachedAt, t.LatenessMS
		return true, nil
	case t.State == timer.Expired && entry.Version == version:
		p.Result, p.EventID, p.ExpiredAt = resultExpired, t.Event.ID, t.ExpiredAt
		return true, fmt.Errorf("%s: expired at %s before it could fire", p.key(), when(t.ExpiredAt))
	case t.State.Marked() && p.Type == envelope.TypeCancelTimer:
		err = fmt.Errorf("%s: already %s", p.key(), marked(t))
	case t.State.Marked():
		err = fmt.Errorf("%s: already %s: use a new call id", p.key(), marked(t))
	case outcome != timer.WasStale:
		return false, nil
	case t.State == timer.Canceled:
		err = fmt.Errorf("%s: a newer command canceled it at %s", p.key(), when(t.CanceledAt))
	default:
		err = fmt.Errorf("%s: a newer command set it to %s", p.key(), when(t.DueAt))
	}
	p.Result, p.ReachedAt, p.ExpiredAt = resultIgnored, t.ReachedAt, t.ExpiredAt
	return true, err
}

// marked says for people when a timer was reached or expired.
func marked(t admin.Timer) string {
	return strings.ToLower(string(t.State)) + " at " + when(cmp.Or(t.ReachedAt, t.ExpiredAt))
}

// refused adds the dead letter of the command, and returns it as an error. It returns nil if
// there is none yet.
func (p *published) refused(ctx context.Context, c *apiclient.Client) error {
	found, _, _ := deadLetters{tenant: p.TenantID, correlation: p.CorrelationID}.find(ctx, c) // an error is retried
	for _, d := range found {
		if d.OriginalID == p.ID {
			p.Result, p.Reason, p.Detail = resultDeadLetter, timer.Reason(printable(string(d.Reason))), printable(d.Detail)
			return fmt.Errorf("%s: refused: %s (%s)", p.key(), p.Detail, p.Reason)
		}
	}
	return nil
}
