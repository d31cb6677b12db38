package admin

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/timer"
)

// maxQueued is how many events a client may be behind.
const maxQueued = 4096

// A Happening is an event in the life of a timer on this instance.
type Happening struct {
	At            string              `json:"at" format:"date-time"`
	TenantID      timer.TenantID      `json:"tenantId,omitempty"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId,omitempty"`
	ID            string              `json:"id,omitempty" doc:"Of the command, or of the event."`
	CorrelationID string              `json:"correlationId,omitempty"`
	DueAt         string              `json:"dueAt,omitempty" format:"date-time"`
	LatenessMS    *int64              `json:"latenessMs,omitempty" doc:"at minus dueAt."`
	Reason        string              `json:"reason,omitempty" doc:"Why a command had no effect, or was refused; why an event was parked."`
	Detail        string              `json:"detail,omitempty" doc:"The same for people."`
}

// Each of these types is an event of /v1/events.
type (
	scheduledEvent    Happening
	canceledEvent     Happening
	ignoredEvent      Happening
	rejectedEvent     Happening
	deadLetteredEvent Happening
	reachedEvent      Happening
	expiredEvent      Happening
	publishedEvent    Happening
	parkedEventEvent  Happening
)

// An eventClient is a client of [Events].
type eventClient struct {
	tenant timer.TenantID // empty: all
	only   []string       // names of events; none: all
	queue  chan any
	slow   chan struct{} // closed when the queue was full: no more events are sent
}

// Events sends the events of this instance to its clients. Without clients it costs one
// atomic load for each hook. Make it with [NewEvents]; it is safe for concurrent use.
type Events struct {
	counters *app.Counters
	count    atomic.Int32

	mu  sync.Mutex
	all map[*eventClient]struct{}

	statusMu sync.Mutex
	last     Status    // the newest status
	at       time.Time // when it was made
	before   measured  // the counters at that time
}

// NewEvents returns Events that compute rates and lateness from counters.
func NewEvents(counters *app.Counters) *Events {
	return &Events{counters: counters, all: make(map[*eventClient]struct{})}
}

// listen adds a client to the events of a tenant, or of all tenants if it is empty.
func (e *Events) listen(tenant timer.TenantID) *eventClient {
	l := &eventClient{tenant: tenant, queue: make(chan any, maxQueued), slow: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all[l] = struct{}{}
	e.count.Store(int32(len(e.all)))
	return l
}

// remove removes a client, if it is still there.
func (e *Events) remove(l *eventClient) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(l)
}

// drop removes a client. The lock must be held.
func (e *Events) drop(l *eventClient) {
	delete(e.all, l)
	e.count.Store(int32(len(e.all)))
}

// send sends an event to all clients, and drops the ones that are too slow. It never waits
// for a client.
func (e *Events) send(name string, tenant timer.TenantID, event any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for l := range e.all {
		if !l.wants(name) || l.tenant != "" && l.tenant != tenant {
			continue
		}
		select {
		case l.queue <- event:
		default:
			e.drop(l)
			close(l.slow)
		}
	}
}

// wants reports whether a client asked for events of a name.
func (l *eventClient) wants(name string) bool {
	return len(l.only) == 0 || slices.Contains(l.only, name)
}

// Hooks returns the hooks that an app has to call.
func (e *Events) Hooks() app.Hooks {
	return app.Hooks{
		Watch: func() func(handlers.Decision) {
			if e.count.Load() == 0 {
				return nil
			}
			return e.decided
		},
		Reached: func(events []timer.DueTimeReached) {
			if e.count.Load() == 0 {
				return
			}
			for _, d := range events {
				h := Happening{
					At: stamp(d.ReachedAt), TenantID: d.TenantID, ServiceCallID: d.ServiceCallID, ID: envelope.EventID(d),
					CorrelationID: d.CorrelationID, DueAt: stamp(d.DueAt), LatenessMS: new(d.Lateness().Milliseconds()),
				}
				if d.State() == timer.Expired {
					e.send("expired", d.TenantID, expiredEvent(h))
				} else {
					e.send("reached", d.TenantID, reachedEvent(h))
				}
			}
		},
		Published: func(at time.Time, events []*message.Message) {
			if e.count.Load() == 0 {
				return
			}
			for _, m := range events {
				h := happeningOf(at, m)
				e.send("published", h.TenantID, publishedEvent(h))
			}
		},
		Parked: func(m *message.Message, reason string) {
			if e.count.Load() == 0 {
				return
			}
			h := happeningOf(time.Now(), m)
			h.Reason, h.LatenessMS = reason, nil
			e.send("parked", h.TenantID, parkedEventEvent(h))
		},
	}
}

// decided sends the outcome of a command.
func (e *Events) decided(d handlers.Decision) {
	h := Happening{
		At: stamp(time.Now()), TenantID: d.TenantID, ServiceCallID: d.ServiceCallID, ID: d.ID, CorrelationID: d.CorrelationID, DueAt: stamp(d.DueAt),
		Reason: d.Reason, Detail: d.Detail,
	}
	switch d.Outcome {
	case timer.DidSchedule.String(), timer.DidReschedule.String():
		e.send("scheduled", d.TenantID, scheduledEvent(h))
	case timer.DidCancel.String():
		e.send("canceled", d.TenantID, canceledEvent(h))
	case handlers.OutcomeInvalid:
		e.send("dead-lettered", d.TenantID, deadLetteredEvent(h))
	case handlers.OutcomeOverQuota, handlers.OutcomeFailed:
		h.Reason = d.Outcome
		e.send("rejected", d.TenantID, rejectedEvent(h))
	default:
		h.Reason = d.Outcome
		e.send("ignored", d.TenantID, ignoredEvent(h))
	}
}

// happeningOf returns the content of an event's message as a Happening at a time.
func happeningOf(at time.Time, m *message.Message) Happening {
	h := Happening{
		At: stamp(at), TenantID: timer.TenantID(m.Metadata.Get(envelope.HeaderTenantID)), ServiceCallID: timer.ServiceCallID(m.Metadata.Get(envelope.HeaderServiceCallID)),
		ID: m.UUID, CorrelationID: m.Metadata.Get(envelope.HeaderCorrelationID),
	}
	if due, ok := envelope.DueAt(m.UUID); ok {
		h.DueAt, h.LatenessMS = stamp(due), new(max(at.Sub(due), 0).Milliseconds())
	}
	return h
}

// A Status is the state of the service in one second.
type Status struct {
	At              string  `json:"at" format:"date-time"`
	LatenessP99MS   int64   `json:"latenessP99Ms" doc:"How late the events were that the broker has acked since the status before, from the due time to the ack: 99 of 100 at most so late. On this instance."`
	LatenessMaxMS   int64   `json:"latenessMaxMs" doc:"The most that any event was late since the start of this instance."`
	Commands        float64 `json:"commandsPerSecond" doc:"Handled on this instance, as the next two."`
	Reached         float64 `json:"reachedPerSecond"`
	Published       float64 `json:"publishedPerSecond"`
	Scheduled       int64   `json:"scheduled" doc:"Timers that wait to fire."`
	Overdue         int64   `json:"overdue" doc:"Those that were due before now; 10000 may stand for more."`
	Paused          int64   `json:"paused,omitempty" doc:"Timers that are due and wait until firing is resumed; 10000 of a tenant may stand for more. They are none of overdue."`
	Held            int64   `json:"held,omitempty" doc:"Timers that are due and wait for the fire_rate of their tenant; 10000 of a tenant may stand for more. They are none of overdue."`
	OldestOverdueMS int64   `json:"oldestOverdueMs,omitempty" doc:"How long the first of them has been due."`
	Outbox          int64   `json:"outbox" doc:"Events that wait for the broker."`
	OldestEventMS   int64   `json:"oldestEventMs,omitempty" doc:"How long ago the timer of the oldest of them was due."`
	Parked          int64   `json:"parked"`
	Error           string  `json:"error,omitempty" doc:"The database did not answer: its figures are missing."`
}

// measured holds counts at a time.
type measured struct {
	at                           time.Time
	commands, reached, published int64
	lateness                     app.Lateness
}

func (e *Events) measure() measured {
	m := measured{at: time.Now(), reached: e.counters.Reached(), published: e.counters.Forwarded(), lateness: e.counters.Lateness()}
	for _, n := range e.counters.Commands() {
		m.commands += n
	}
	return m
}

// status returns the state of the service, at most a second old: all clients share it.
func (e *Events) status(ctx context.Context, timers timer.Reader) Status {
	e.statusMu.Lock()
	defer e.statusMu.Unlock()
	if time.Since(e.at) < statusInterval*9/10 {
		return e.last
	}
	now := e.measure()
	since := e.before
	if since.at.IsZero() || now.at.Sub(since.at) > 10*statusInterval {
		since = now // there were no clients, so nothing is known of the last second
	}
	s := Status{At: stamp(now.at), LatenessMaxMS: now.lateness.Max.Milliseconds()}
	if took := now.at.Sub(since.at).Seconds(); took > 0 {
		rate := func(n int64) float64 { return math.Round(100*float64(n)/took) / 100 }
		s.Commands, s.Reached, s.Published = rate(now.commands-since.commands), rate(now.reached-since.reached), rate(now.published-since.published)
	}
	if latest := lateness([]sample{{late: since.lateness}, {late: now.lateness}}, 0); latest.Events > 0 {
		s.LatenessP99MS = latest.Quantile(0.99).Milliseconds()
	}
	ctx, cancel := context.WithTimeout(ctx, statusInterval)
	defer cancel()
	stats, overdue, err := statsOf(ctx, timers, "", now.at)
	if err != nil {
		s.Error = "the database did not answer"
	}
	if overdue.Timers > 0 {
		s.Overdue, s.OldestOverdueMS = overdue.Timers, now.at.Sub(overdue.Oldest).Milliseconds()
	}
	s.Scheduled, s.Paused, s.Held, s.Outbox, s.Parked = stats.Scheduled, stats.Paused, stats.Held, stats.Outbox, stats.Parked
	if !stats.DueAt.IsZero() {
		s.OldestEventMS = max(0, now.at.Sub(stats.DueAt).Milliseconds())
	}
	e.last, e.at, e.before = s, now.at, now
	return s
}
