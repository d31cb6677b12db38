package main

import (
	"cmp"
	"context"
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
	key, began := p.key(), time.Now()
	if p.Command, err = apiclient.Do[admin.Command](ctx, c, method, apiclient.TimerPath(key)+apiclient.Query(query...), request); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	waits := w.untilFired || w.wait && p.Result == resultPublished
	if !waits || !e.out.json {
		e.out.print(p, p.text()) // before the wait, which may be long
	}
	if waits {
		err = p.await(ctx, c, w, began)
	}
	if waits && (err == nil || e.out.json) {
		e.out.print(p, p.text())
	}
	return err
}

// These are the shortest and the longest interval between polls of a timer.
const (
	eventInterval    = 100 * time.Millisecond
	replacedInterval = time.Second // a newer command may replace the timer
)

// await waits until the command that was published at began took effect, or until its timer fired,
// and notes that as the result. It is an error if this can't happen any more, or has not happened within
// the timeout, which begins at the due time if the timer is to fire.
func (p *publishResult) await(ctx context.Context, c *apiclient.Client, w waitOptions, began time.Time) error {
	due := parseTime(p.DueAt)
	deadline := began
	if w.untilFired && due.After(began) {
		deadline = due
	}
	waiting, cancel := context.WithDeadline(ctx, deadline.Add(time.Duration(w.timeout)))
	defer cancel()
	own := timer.Version{TimestampMS: p.TimestampMS, CommandID: p.ID}
	for pause.For(waiting, max(eventInterval, min(replacedInterval, time.Until(due)))) {
		t, err := apiclient.Get[admin.Timer](waiting, c, apiclient.TimerPath(p.key()))
		is := timer.Version{TimestampMS: t.TimestampMS, CommandID: t.CommandID}
		switch {
		case err != nil: // it was not handled yet, or the service is busy
		case own.Compare(is) < 0:
			return fmt.Errorf("%s: a newer command replaced this one", p.key())
		case is == own && w.untilFired && t.State == timer.Reached:
			p.Result, p.EventID, p.ReachedAt, p.LatenessMS = resultReached, t.Event.ID, t.ReachedAt, t.LatenessMS
			return nil
		case is == own && !w.untilFired:
			p.Result = timer.DidSchedule.String()
			if p.Type == envelope.TypeCancelTimer {
				p.Result = timer.DidCancel.String()
			}
			return nil
		case t.State.Marked():
			return fmt.Errorf("%s: already %s", p.key(), marked(t))
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: stopped waiting; the command is published: %w", p.key(), errInterrupted)
	}
	return fmt.Errorf("%s: no answer within %s; see %q, and %q for what may delay it", p.key(), config.FormatDuration(time.Duration(w.timeout)),
		fmt.Sprintf("%s get %s %s", program, p.TenantID, p.ServiceCallID), fmt.Sprintf("%s stats %s", program, p.TenantID))
}

// marked says for people when a timer was reached or expired.
func marked(t admin.Timer) string {
	return strings.ToLower(string(t.State)) + " at " + when(cmp.Or(t.ReachedAt, t.ExpiredAt))
}
