package admin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// An eventClient is a client of [Events].
type eventClient struct {
	tenant timer.TenantID // empty: all
	only   []string       // names of events; none: all
	queue  chan []byte    // events as they are sent; closed when it was full: then the client gets no more
}

// Events sends the events of this instance to its clients. Make it with [NewEvents]; it is
// safe for concurrent use.
type Events struct {
	mu  sync.Mutex
	all map[*eventClient]struct{}
}

// NewEvents returns Events that have no clients yet.
func NewEvents() *Events { return &Events{all: make(map[*eventClient]struct{})} }

// listen adds a client to the events of some names, or to all events if there are none, of a
// tenant, or of all tenants if it is empty.
func (e *Events) listen(tenant timer.TenantID, only []string) *eventClient {
	l := &eventClient{tenant: tenant, only: only, queue: make(chan []byte, maxQueued)}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all[l] = struct{}{}
	return l
}

// remove removes a client, if it is still there.
func (e *Events) remove(l *eventClient) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, l)
}

// heard reports whether there is a client.
func (e *Events) heard() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.all) > 0
}

// send sends an event to all clients, and drops the ones that are too slow. It never waits
// for a client.
func (e *Events) send(name string, h Happening) {
	event := serverSent(name, h)
	e.mu.Lock()
	defer e.mu.Unlock()
	for l := range e.all {
		if l.tenant != "" && l.tenant != h.TenantID || len(l.only) > 0 && !slices.Contains(l.only, name) {
			continue
		}
		select {
		case l.queue <- event:
		default:
			delete(e.all, l)
			close(l.queue)
		}
	}
}

// serverSent returns an event in the form of server-sent events.
func serverSent(name string, data any) []byte {
	text, _ := json.Marshal(data) // our types can be encoded
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text)
}

// Hooks returns the hooks that an app has to call.
func (e *Events) Hooks() app.Hooks {
	return app.Hooks{
		Watch: func() func(handlers.Decision) {
			if !e.heard() {
				return nil
			}
			return e.decided
		},
		Reached: func(events []timer.DueTimeReached) {
			if !e.heard() {
				return
			}
			for _, d := range events {
				h := Happening{
					At: stamp(d.ReachedAt), TenantID: d.TenantID, ServiceCallID: d.ServiceCallID, ID: envelope.EventID(d),
					CorrelationID: d.CorrelationID, DueAt: stamp(d.DueAt), LatenessMS: new(d.Lateness().Milliseconds()),
				}
				e.send(strings.ToLower(string(d.State())), h)
			}
		},
		Published: func(at time.Time, events []*message.Message) {
			if !e.heard() {
				return
			}
			for _, m := range events {
				e.send("published", happeningOf(at, m))
			}
		},
		Parked: func(m *message.Message, reason string) {
			if !e.heard() {
				return
			}
			h := happeningOf(time.Now(), m)
			h.Reason, h.LatenessMS = reason, nil
			e.send("parked", h)
		},
	}
}

// decided sends the outcome of a command.
func (e *Events) decided(d handlers.Decision) {
	h := Happening{
		At: stamp(time.Now()), TenantID: d.TenantID, ServiceCallID: d.ServiceCallID, ID: d.ID, CorrelationID: d.CorrelationID, DueAt: stamp(d.DueAt),
		Reason: d.Reason, Detail: d.Detail,
	}
	name, known := outcomes[d.Outcome]
	if !known {
		name = "ignored"
	}
	if name == "ignored" || name == "rejected" {
		h.Reason = d.Outcome
	}
	e.send(name, h)
}

// outcomes are the names of events of commands, by their outcome. Other commands are ignored.
var outcomes = map[string]string{
	timer.DidSchedule.String(): "scheduled", timer.DidReschedule.String(): "scheduled", timer.DidCancel.String(): "canceled",
	handlers.OutcomeInvalid: "dead-lettered", handlers.OutcomeOverQuota: "rejected", handlers.OutcomeFailed: "rejected",
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
