package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type getCmd struct {
	Tenant timer.TenantID      `arg:"" help:"Owner of the timer."`
	Call   timer.ServiceCallID `arg:"" help:"Service call."`
	Data   bool                `help:"Print the data of the timer, too."`
}

// Help is printed below the summary.
func (getCmd) Help() string {
	return `Asks the service, or reads the database if none runs. The exit code is 3 if there
is no such timer. For a timer that has fired or expired it says where the event is: waits for
the broker, deferred after a failure, parked, or published. The data of a timer are
printed with --data only, else their size.

Examples:

    timer-service get acme order-1
    timer-service get acme order-1 --data
    timer-service get acme order-1 -o json --db-path /var/lib/timers.db`
}

// Run prints the timer.
func (g *getCmd) Run(ctx context.Context, e *env, r reader) error {
	t, err := getTimer(ctx, r.Client, timer.Key{TenantID: g.Tenant, ServiceCallID: g.Call})
	if err != nil {
		return err
	}
	shown := show(t)
	if g.Data {
		shown.withData(t)
	}
	e.out.print(shown)
	return nil
}

// getTimer asks for a timer. The error names the key, and wraps [timer.ErrNotFound] if there
// is no such timer.
func getTimer(ctx context.Context, c *apiclient.Client, key timer.Key) (admin.Timer, error) {
	t, err := apiclient.Get[admin.Timer](ctx, c, apiclient.TimerPath(key))
	if errors.Is(err, timer.ErrNotFound) {
		err = &absentError{"timer " + key.String(), "list " + string(key.TenantID)}
	}
	return t, err
}

// whereabouts says for people where an event is.
func whereabouts(e *admin.Event) string {
	switch e.State {
	case timer.Waiting:
		return "waits for the broker since " + when(e.Since)
	case timer.Deferred:
		return fmt.Sprintf("not published in %d tries, the next at %s: %s: %s", e.Attempts, when(e.RetryAt), e.Destination, e.Reason)
	case timer.Parked:
		return fmt.Sprintf("parked at %s, the broker refuses it: %s", when(e.Since), e.Reason)
	case timer.DeliveryUnknown:
		return fmt.Sprintf("unknown: more than %d events wait, and it is not among the first", timer.DeliveryWalk)
	}
	return string(e.State)
}

// A shownTimer is a timer as get and list print it.
type shownTimer struct {
	admin.Timer
	DataBytes int `json:"dataBytes,omitempty"`
	data      string
}

// show returns a timer without its data.
func show(t admin.Timer) *shownTimer {
	s := &shownTimer{Timer: t, DataBytes: len(dataOf(t))}
	s.Data, s.DataText = nil, ""
	return s
}

// dataOf returns the data of a timer as its event carries them.
func dataOf(t admin.Timer) string { return cmp.Or(t.DataText, string(t.Data)) }

// withData adds the data of the timer.
func (s *shownTimer) withData(t admin.Timer) { s.Data, s.data = t.Data, dataOf(t) }

func (s *shownTimer) text() string {
	pairs := []any{
		"tenant", s.TenantID, "service call", s.ServiceCallID, "state", s.State, "due at", when(s.DueAt), "registered at", when(s.RegisteredAt),
		"expires at", when(s.ExpiresAt), "expired at", when(s.ExpiredAt), "reached at", when(s.ReachedAt), "fired late", s.late(), "canceled at", when(s.CanceledAt),
	}
	if s.Event != nil {
		pairs = append(pairs, "event", whereabouts(s.Event), "event id", s.Event.ID)
	}
	body, note := readable(admin.Body{Text: &s.data})
	if s.data == "" && s.DataBytes > 0 {
		note = fmt.Sprintf("%d bytes", s.DataBytes)
	}
	return fields(append(pairs,
		"correlation", s.CorrelationID, "command", fmt.Sprintf("%s of %s", s.CommandID, when(envelope.FormatTime(time.UnixMilli(s.TimestampMS)))),
		"data", note)...) + body
}

// late returns how late the timer fired, or "" if it did not.
func (s *shownTimer) late() string {
	if s.LatenessMS == nil {
		return ""
	}
	return lateness(*s.LatenessMS)
}

// lateness formats milliseconds for people: exact below ten seconds, then to the tenth of a
// second, and rounded to seconds from a minute on.
func lateness(ms int64) string {
	const exact, tenths = 10_000, 60_000
	switch {
	case ms < exact:
		return fmt.Sprintf("%d ms", ms)
	case ms < tenths:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	}
	return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
}
