package admin

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Timer is a timer in an answer.
type Timer struct {
	TenantID      timer.TenantID      `json:"tenantId"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
	State         timer.State         `json:"state" enum:"Scheduled,Reached,Expired,Canceled"`
	DueAt         string              `json:"dueAt,omitempty" format:"date-time" doc:"None for a cancellation that came before its timer."`
	ExpiresAt     string              `json:"expiresAt,omitempty" format:"date-time" doc:"From when on it must not fire any more. None if it may fire at any time."`
	RegisteredAt  string              `json:"registeredAt" format:"date-time"`
	ReachedAt     string              `json:"reachedAt,omitempty" format:"date-time"`
	LatenessMS    *int64              `json:"latenessMs,omitempty" doc:"reachedAt minus dueAt."`
	ExpiredAt     string              `json:"expiredAt,omitempty" format:"date-time" doc:"When it became Expired."`
	CanceledAt    string              `json:"canceledAt,omitempty" format:"date-time"`
	CorrelationID string              `json:"correlationId,omitempty"`
	CommandID     string              `json:"commandId" doc:"Id of the newest command that took effect."`
	TimestampMS   int64               `json:"timestampMs" doc:"Its time."`
	Data          json.RawMessage     `json:"data,omitempty" doc:"The JSON value that came with the timer. White space between its parts is left out."`
	DataText      string              `json:"dataText,omitempty" doc:"The same byte for byte as the event carries it, if data is written in another way here."`
	DataBytes     int                 `json:"dataBytes,omitempty" doc:"How long the data are."`
	Event         *Event              `json:"event,omitempty" doc:"Of a timer that fired or expired, if one timer was asked for."`
}

// An Event says where the event of a timer is.
type Event struct {
	ID          string              `json:"id"`
	State       timer.DeliveryState `json:"state" enum:"waiting,deferred,snoozed,parked,published,unknown"`
	Since       string              `json:"since,omitempty" format:"date-time"`
	Attempts    int                 `json:"attempts,omitempty"`
	Reason      string              `json:"reason,omitempty"`
	Destination string              `json:"destination,omitempty"`
	RetryAt     string              `json:"retryAt,omitempty" format:"date-time"`
}

// Timers are a page of timers.
type Timers struct {
	Timers []Timer `json:"timers" nullable:"false"`
	Next   string  `json:"next,omitempty" doc:"Where the next page begins: send it as after. None after the last page. A page may be short, or empty, and have a next one."`
	Hint   string  `json:"hint,omitempty" doc:"For people: there may be more timers, on no other page."`
}

func show(e timer.Entry) Timer {
	t := Timer{
		TenantID: e.TenantID, ServiceCallID: e.ServiceCallID, State: e.State,
		DueAt: stamp(e.DueAt), ExpiresAt: stamp(e.ExpiresAt), RegisteredAt: stamp(e.RegisteredAt), CanceledAt: stamp(e.CanceledAt),
		CorrelationID: e.CorrelationID, CommandID: e.CommandID, TimestampMS: e.TimestampMS, DataBytes: len(e.Data),
	}
	switch e.State {
	case timer.Expired:
		t.ExpiredAt = stamp(e.ReachedAt)
	case timer.Reached:
		t.ReachedAt = stamp(e.ReachedAt)
		t.LatenessMS = new(e.ReachedAt.Sub(e.DueAt).Milliseconds())
	}
	var written bytes.Buffer
	if json.Compact(&written, []byte(e.Data)) == nil {
		t.Data = json.RawMessage(e.Data)
	}
	if written.String() != e.Data {
		t.DataText = e.Data
	}
	return t
}

// page returns a page of timers as an answer.
func (q DataQuery) page(entries []timer.Entry, next string) *reply[Timers] {
	return &reply[Timers]{Timers{Timers: all(entries, q.show), Next: next}}
}

func (q DataQuery) show(e timer.Entry) Timer {
	t := show(e)
	if !q.Data {
		t.Data, t.DataText = nil, ""
	}
	return t
}

// A TenantPath is the part of a path that names a tenant.
type TenantPath struct {
	Tenant timer.TenantID `path:"tenant" doc:"Owner of the timers." maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9_-]*$" example:"acme"`
}

// A TimerPath is the part of a path that names a timer.
type TimerPath struct {
	TenantPath
	Call timer.ServiceCallID `path:"call" doc:"Service call of the timer." maxLength:"128" pattern:"^[A-Za-z0-9_.:-]+$" example:"order-1"`
}

func (p TimerPath) key() timer.Key {
	return timer.Key{TenantID: p.Tenant, ServiceCallID: p.Call}
}

// A PageQuery bounds a page.
type PageQuery struct {
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most items of the answer."`
	After string `query:"after" maxLength:"160" doc:"The page after this one: next of the page before."`
}

// A DataQuery says whether an answer has the data of timers.
type DataQuery struct {
	Data bool `query:"data" default:"true" doc:"With the data of timers. Without, dataBytes says how long they are."`
}

type (
	timerInput struct {
		TimerPath
		DataQuery
	}
	listInput struct {
		DataQuery
		TenantPath
		PageQuery
		Prefix        string `query:"prefix" maxLength:"128" doc:"Only timers whose service call begins so." example:"order-17."`
		State         string `query:"state" enum:"Scheduled,Reached,Expired,Canceled" doc:"Only timers in this state."`
		DueFrom       Moment `query:"dueFrom" doc:"Only timers due then or later: RFC 3339 with a zone, or a duration from now on." example:"2030-01-31T12:00:00Z"`
		DueBefore     Moment `query:"dueBefore" doc:"Only timers due before then." example:"2030-01-31T12:00:00+01:00"`
		CorrelationID string `query:"correlationId" maxLength:"128" pattern:"^[!-~]*$" patternDescription:"visible ASCII" doc:"Only timers that carry it."`
	}
	findInput struct {
		DataQuery
		PageQuery
		CorrelationID string `query:"correlationId" maxLength:"128" pattern:"^[!-~]*$" patternDescription:"visible ASCII" doc:"Timers that carry it. There is one page."`
		DueWithin     string `query:"dueWithin" doc:"Scheduled timers that are due before the end of this duration, overdue ones too, soonest first." example:"1h"`
	}
)

func (a *api) timer(ctx context.Context, in *timerInput) (*reply[Timer], error) {
	entry, id, d, err := a.timerOf(ctx, in.key())
	out := &reply[Timer]{in.show(entry)}
	if id != "" {
		out.Body.Event = &Event{
			ID: id, State: d.State, Since: stamp(d.Since), Attempts: d.Attempts, Reason: d.Reason, Destination: d.Destination, RetryAt: stamp(d.RetryAt),
		}
	}
	return out, err
}

// timerOf returns a timer. If it fired or expired, it also returns the id of its event, and
// where that is.
func (a *actions) timerOf(ctx context.Context, key timer.Key) (e timer.Entry, eventID string, d timer.Delivery, err error) {
	if e, err = a.Timers.Get(ctx, key); err == nil && e.State.Marked() {
		eventID = envelope.EventID(e.Event())
		d, err = a.Timers.Delivery(ctx, eventID)
	}
	return e, eventID, d, err
}

func (a *api) list(ctx context.Context, in *listInput) (*reply[Timers], error) {
	now := a.now()
	filter := timer.Filter{
		TenantID: in.Tenant, Prefix: in.Prefix, State: timer.State(in.State), CorrelationID: in.CorrelationID,
		After: in.After, Limit: in.Limit, DueFrom: in.DueFrom.At(now), DueBefore: in.DueBefore.At(now),
	}
	page, err := a.Timers.List(ctx, filter)
	return in.page(page.Entries, page.Next), err
}

func (a *api) find(ctx context.Context, in *findInput) (*reply[Timers], error) {
	switch {
	case (in.CorrelationID == "") == (in.DueWithin == ""):
		return nil, huma.Error422UnprocessableEntity("give correlationId or dueWithin, and not both")
	case in.CorrelationID != "" && in.After != "":
		return nil, huma.Error422UnprocessableEntity("after goes with dueWithin: timers of a correlation id have one page")
	case in.CorrelationID != "":
		page, err := a.Timers.List(ctx, timer.Filter{CorrelationID: in.CorrelationID, Limit: in.Limit})
		out := in.page(page.Entries, "")
		if err == nil && len(page.Entries) == in.Limit {
			out.Body.Hint = "there may be more timers with this correlation id, of which a list of all tenants has at most 1000: list them tenant by tenant"
		}
		return out, err
	}
	within, err := config.ParseWithUnit(in.DueWithin)
	if err != nil || within < 0 {
		return nil, huma.Error422UnprocessableEntity("dueWithin must be a duration with a unit, such as 90s, 1h or 7d; 0 finds overdue timers")
	}
	page, err := a.Timers.List(ctx, timer.Filter{DueBefore: a.now().Add(within), After: in.After, Limit: in.Limit})
	return in.page(page.Entries, page.Next), err
}
