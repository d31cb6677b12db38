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

// These are results of a command, beside those of [admin.Command].
const (
	resultPublished = "published" // the broker made it durable
	resultReached   = "reached"   // the timer fired
)

// A published is a command that a service has published, and its result.
type published struct {
	admin.Command
	Type   string      `json:"type"`
	Before *shownTimer `json:"before,omitempty"` // the timer that is to be canceled, if there was one

	EventID    string `json:"eventId,omitempty"`
	ReachedAt  string `json:"reachedAt,omitempty"`
	LatenessMS *int64 `json:"latenessMs,omitempty"` // how late it fired, by the service's clock

	was string // Before for people
}

func newPublished(kind string, tenant timer.TenantID, call timer.ServiceCallID) *published {
	return &published{Type: kind, Command: admin.Command{TenantID: tenant, ServiceCallID: call}}
}

func (p *published) key() timer.Key {
	return timer.Key{TenantID: p.TenantID, ServiceCallID: p.ServiceCallID}
}

func (p *published) text() string {
	if p.Result == resultReached {
		return fmt.Sprintf("%-10s %s  %s late", p.Result, p.key(), lateness(*p.LatenessMS))
	}
	return fmt.Sprintf("%-10s %s  %s  id %s%s", p.Result, p.key(), cmp.Or(p.due(), p.Type), p.ID, p.was)
}

func (p *published) due() string {
	if p.DueAt == "" {
		return ""
	}
	return "due " + when(p.DueAt)
}

// waitFlags are the flags of verbs that may wait for the result of a command.
type waitFlags struct {
	Wait    bool     `xor:"wait" help:"Wait for what becomes of it, and print that."`
	Timeout duration `default:"30s" help:"How long to wait, after the due time if there is one."`
}

// maxWait is the longest time that the service waits for a command to take effect.
const maxWait = 20 * time.Second

// query returns the query of a request that may wait until its command took effect.
func (w waitFlags) query(pairs ...string) string {
	wait := ""
	if w.Wait {
		wait = min(time.Duration(w.Timeout), maxWait).String()
	}
	return apiclient.Query(append(pairs, "wait", wait)...)
}

// timeout returns the error of a command of which nothing is known within the timeout.
func (w waitFlags) timeout(what any, verb string) error {
	return fmt.Errorf("%v: no answer within %s; the service may be busy or down: see %q", what, config.FormatDuration(time.Duration(w.Timeout)), program+" "+verb)
}

// publish makes the service publish a command, and prints it. If the flags say so, it waits
// until the command took effect, and then until the timer fires, and prints that.
func (w waitFlags) publish(ctx context.Context, e *env, c *apiclient.Client, p *published, method string, request []byte, query ...string) (err error) {
	key := p.key()
	if p.Command, err = apiclient.Do[admin.Command](ctx, c, method, apiclient.TimerPath(key)+w.query(query...), request); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	fires := w.Wait && p.Type == envelope.TypeScheduleTimer
	if !fires || !e.out.json {
		e.out.print(p) // before the wait, which may be long
	}
	if !fires {
		if w.Wait && p.Result == resultPublished {
			err = w.timeout(key, "get "+string(key.TenantID)+" "+string(key.ServiceCallID))
		}
		return err
	}
	err = p.await(ctx, e.now, c, w)
	if err == nil || e.out.json {
		e.out.print(p)
	}
	return err
}

// These are the shortest and the longest interval between polls for the event of a timer.
const (
	eventInterval    = 100 * time.Millisecond
	replacedInterval = time.Second // a newer command may replace the timer
)

// await waits until the timer fired, and adds its event to p. Another end of the timer is an
// error, and so is a timeout after the due time.
func (p *published) await(ctx context.Context, now func() time.Time, c *apiclient.Client, w waitFlags) error {
	due := parseTime(p.DueAt)
	waiting, cancel := context.WithTimeout(ctx, max(due.Sub(now()), 0)+time.Duration(w.Timeout))
	defer cancel()
	for pause.For(waiting, max(eventInterval, min(replacedInterval, due.Sub(now())))) {
		switch t, err := getTimer(waiting, c, p.key()); {
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
	return w.timeout(p.key(), "get "+string(p.TenantID)+" "+string(p.ServiceCallID))
}

// marked says for people when a timer was reached or expired.
func marked(t admin.Timer) string {
	return strings.ToLower(string(t.State)) + " at " + when(cmp.Or(t.ReachedAt, t.ExpiredAt))
}
