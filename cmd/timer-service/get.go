package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

type getCmd struct {
	Tenant string `arg:"" help:"Owner of the timer."`
	Call   string `arg:"" help:"Service call."`
	Data   bool   `help:"Print the data of the timer, too."`
}

// Help is printed below the summary.
func (getCmd) Help() string {
	return `Asks the service, or reads the database if none runs. The exit code is 3 if there
is no such timer. For a timer that has fired it says where the event is: waits for
the broker, deferred after a failure, parked, or published. The data of a timer are
printed with --data only, else their size.

Examples:

    timer-service get acme order-1
    timer-service get acme order-1 --data
    timer-service get acme order-1 -o json --db-path /var/lib/timers.db`
}

// Run prints the timer.
func (g *getCmd) Run(ctx context.Context, e *env) error {
	key := timer.Key{TenantID: timer.TenantID(g.Tenant), ServiceCallID: timer.ServiceCallID(g.Call)}
	if err := key.Validate(); err != nil {
		return refused("get", err)
	}
	r, err := e.reader(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	entry, event, err := r.Get(ctx, key)
	if err != nil {
		return err // names the key
	}
	shown := show(entry)
	if g.Data {
		shown.withData(entry.Data)
	}
	if event != nil {
		shown.Event = &shownEvent{
			ID: event.ID, State: event.State, Since: parseStamp(event.Since), Attempts: event.Attempts, Reason: event.Reason,
			Destination: event.Destination, RetryAt: parseStamp(event.RetryAt),
		}
	}
	e.out.print(shown)
	return nil
}

// A shownEvent is where the event of a timer is.
type shownEvent struct {
	ID          string              `json:"id"`
	State       timer.DeliveryState `json:"state"`
	Since       stamp               `json:"since,omitzero"`
	Attempts    int                 `json:"attempts,omitempty"`
	Reason      string              `json:"reason,omitempty"`
	Destination string              `json:"destination,omitempty"`
	RetryAt     stamp               `json:"retryAt,omitzero"`
}

// line says it for people.
func (s *shownEvent) line() string {
	switch s.State {
	case timer.Waiting:
		return "waits for the broker since " + when(s.Since)
	case timer.Deferred:
		return fmt.Sprintf("not published in %d tries, the next at %s: %s: %s", s.Attempts, when(s.RetryAt), s.Destination, s.Reason)
	case timer.Parked:
		return fmt.Sprintf("parked at %s, the broker refuses it: %s", when(s.Since), s.Reason)
	case timer.DeliveryUnknown:
		return fmt.Sprintf("unknown: more than %d events wait, and it is not among the first", timer.DeliveryWalk)
	}
	return string(s.State)
}

// A shownTimer is a timer as get and list print it.
type shownTimer struct {
	TenantID      timer.TenantID      `json:"tenantId"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
	State         timer.State         `json:"state"`
	DueAt         stamp               `json:"dueAt,omitzero"` // none for a tombstone
	RegisteredAt  stamp               `json:"registeredAt"`
	ReachedAt     stamp               `json:"reachedAt,omitzero"`
	LatenessMS    *int64              `json:"latenessMs,omitempty"`
	CanceledAt    stamp               `json:"canceledAt,omitzero"`
	CorrelationID string              `json:"correlationId,omitempty"`
	CommandID     string              `json:"commandId"`   // of the newest command that took effect
	TimestampMS   int64               `json:"timestampMs"` // of the same
	DataBytes     int                 `json:"dataBytes,omitempty"`
	Data          json.RawMessage     `json:"data,omitempty"` // if it was asked for
	Event         *shownEvent         `json:"event,omitempty"`
	data          string
}

func show(e timer.Entry) *shownTimer {
	s := &shownTimer{
		TenantID: e.TenantID, ServiceCallID: e.ServiceCallID, State: e.State,
		DueAt: stamp(e.DueAt), RegisteredAt: stamp(e.RegisteredAt), ReachedAt: stamp(e.ReachedAt), CanceledAt: stamp(e.CanceledAt),
		CorrelationID: e.CorrelationID, CommandID: e.CommandID, TimestampMS: e.TimestampMS,
		DataBytes: len(e.Data),
	}
	if e.State == timer.Reached {
		late := e.ReachedAt.Sub(e.DueAt).Milliseconds()
		s.LatenessMS = &late
	}
	return s
}

// withData adds the data of the timer.
func (s *shownTimer) withData(data string) {
	s.data = data
	if json.Valid([]byte(data)) {
		s.Data = json.RawMessage(data)
	}
}

func (s *shownTimer) text() string {
	pairs := []any{
		"tenant", s.TenantID, "service call", s.ServiceCallID, "state", s.State, "due at", when(s.DueAt), "registered at", when(s.RegisteredAt),
	}
	if !s.ReachedAt.IsZero() {
		pairs = append(pairs, "reached at", when(s.ReachedAt)+", fired "+s.late()+" late")
	}
	if !s.CanceledAt.IsZero() {
		pairs = append(pairs, "canceled at", when(s.CanceledAt))
	}
	if s.Event != nil {
		pairs = append(pairs, "event", s.Event.line(), "event id", s.Event.ID)
	}
	pairs = append(pairs,
		"correlation", s.CorrelationID, "command", fmt.Sprintf("%s of %s", s.CommandID, when(stamp(time.UnixMilli(s.TimestampMS)))))
	if s.DataBytes == 0 {
		return fields(pairs...)
	}
	data, note := "", fmt.Sprintf("%d bytes", s.DataBytes)
	if s.data != "" {
		data, note = showBody([]byte(s.data)).forPeople()
		data = "\n" + data
	}
	return fields(append(pairs, "data", note)...) + data
}

// late returns how late the timer fired, or "-" if it did not.
func (s *shownTimer) late() string {
	if s.LatenessMS == nil {
		return "-"
	}
	return lateness(*s.LatenessMS)
}

// lateness returns milliseconds for people: exact below ten seconds, then to the
// tenth of a second, and rounded to seconds from a minute on.
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
