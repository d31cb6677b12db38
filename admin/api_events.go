package admin

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"
)

const (
	statusInterval    = time.Second
	heartbeatInterval = 15 * time.Second
)

// A heartbeatEvent says that the connection works.
type heartbeatEvent struct {
	At string `json:"at" format:"date-time"`
}

// An endEvent is the last event of a stream.
type endEvent struct {
	Reason string `json:"reason" enum:"too_slow,stopping,token" doc:"too_slow: the client did not read as fast as things happened, and has missed some. stopping: the server stops. token: the token is right no more, or the session has ended."`
}

// eventNames are the types of events, by name.
var eventNames = map[string]any{
	"scheduled": scheduledEvent{}, "canceled": canceledEvent{}, "ignored": ignoredEvent{}, "rejected": rejectedEvent{}, "dead-lettered": deadLetteredEvent{},
	"reached": reachedEvent{}, "expired": expiredEvent{}, "published": publishedEvent{}, "parked": parkedEventEvent{},
	"status": Status{}, "heartbeat": heartbeatEvent{}, "end": endEvent{},
}

type eventsInput struct {
	TenantQuery
	Only []string `query:"only,explode" enum:"scheduled,canceled,ignored,rejected,dead-lettered,reached,expired,published,parked,status" doc:"Only events of this name; may be given several times. Default: all."`
}

// eventClientKey is the key of the client in the context of a request.
type eventClientKey struct{}

func (a *api) addEvents(events *Events, stopping <-chan struct{}) {
	op := a.complete(huma.Operation{
		OperationID: "listen", Method: http.MethodGet, Path: "/v1/events", Summary: "What happens on this instance, as server-sent events",
		Description: "Commands: `scheduled`, `canceled`, `ignored` (no effect: stale, reached or expired), `rejected` (over its quota, or the database failed; it comes again), `dead-lettered`. " +
			"Timers: `reached`, `expired`, `published` (acked by the broker), `parked`. `status` each second, to the token of all tenants only. `heartbeat` every 15 s. `end` is the last event, if the server ends the connection. " +
			"Nothing is repeated that happened while no connection was there. There are 50 connections at most, together with those of /v1/messages, and 10 with the tokens of one tenant.",
	}, filtered)
	op.Middlewares = huma.Middlewares{func(c huma.Context, next func(huma.Context)) {
		if a.timers == nil || events == nil {
			_ = huma.WriteErr(a.huma, c, errNoService.GetStatus(), errNoService.Error())
			return
		}
		tenant, err := TenantQuery{Tenant: c.Query("tenant")}.of(c.Context())
		if err != nil {
			code, text := explain(err)
			_ = huma.WriteErr(a.huma, c, code, text)
			return
		}
		if c.Method() == http.MethodHead { // a HEAD would wait for a body
			c.SetHeader("Content-Type", "text/event-stream")
			c.SetStatus(http.StatusOK)
			return
		}
		end, refused := a.listening.begin(accessOf(c.Context()).tenant)
		if refused != nil {
			_ = huma.WriteErr(a.huma, c, refused.GetStatus(), refused.Error())
			return
		}
		defer end()
		l := events.listen(tenant)
		defer events.remove(l)
		streamTo(c)
		next(huma.WithValue(c, eventClientKey{}, l))
	}}
	sse.Register(a.huma, op, eventNames, func(ctx context.Context, in *eventsInput, send sse.Sender) {
		l, _ := ctx.Value(eventClientKey{}).(*eventClient)
		events.serve(ctx, a, l, in, stopping, send.Data)
	})
	// Generators take the schema of a stream for the schema of the data of one event.
	schemas := a.huma.OpenAPI().Components.Schemas
	data := new(huma.Schema)
	for _, name := range slices.Sorted(maps.Keys(eventNames)) {
		data.OneOf = append(data.OneOf, schemas.Schema(reflect.TypeOf(eventNames[name]), true, name))
	}
	answer := a.huma.OpenAPI().Paths[op.Path].Get.Responses["200"]
	answer.Description = "A stream. The schema is that of the data of an event."
	answer.Content["text/event-stream"].Schema = data
}

// serve sends events to a client until the client goes away, is too slow, or the server
// stops, or until a heartbeat finds that its token is no longer valid.
func (e *Events) serve(ctx context.Context, a *api, l *eventClient, in *eventsInput, stopping <-chan struct{}, send func(any) error) {
	e.mu.Lock()
	l.only = in.Only
	e.mu.Unlock()
	sendsStatus := l.wants("status") && accessOf(ctx).tenant == ""
	status, heartbeat := time.NewTicker(statusInterval), time.NewTicker(heartbeatInterval)
	defer status.Stop()
	defer heartbeat.Stop()
	err := send(heartbeatEvent{stamp(time.Now())}) // shows the client at once that it is connected
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			_ = send(endEvent{"stopping"}) // fails if the client has gone
			return
		case <-l.slow:
			_ = send(endEvent{"too_slow"})
			return
		case event := <-l.queue:
			err = send(event)
		case <-status.C:
			if sendsStatus {
				err = send(e.status(ctx, a.timers))
			}
		case <-heartbeat.C:
			if !accessOf(ctx).stillRight() {
				_ = send(endEvent{"token"})
				return
			}
			err = send(heartbeatEvent{stamp(time.Now())})
		}
	}
}
