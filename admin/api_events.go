package admin

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/timer"
)

// A heartbeatEvent says that the connection works.
type heartbeatEvent struct {
	At string `json:"at" format:"date-time"`
}

// An endEvent is the last event of a stream.
type endEvent struct {
	Reason string `json:"reason" enum:"too_slow,stopping,token" doc:"too_slow: the client did not read as fast as things happened, and has missed some. stopping: the server stops. token: the token is right no more, or the session has ended."`
}

type eventsInput struct {
	TenantQuery
	Only []string `query:"only,explode" enum:"scheduled,canceled,ignored,rejected,dead-lettered,reached,expired,published,parked" doc:"Only events of this name; may be given several times. Default: all."`
}

func (a *api) addEvents(events *Events) {
	// Generators take the schema of a stream for the schema of the data of one event.
	data := new(huma.Schema)
	for _, event := range []any{Happening{}, heartbeatEvent{}, endEvent{}} {
		data.OneOf = append(data.OneOf, a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(event), true, ""))
	}
	op := huma.Operation{
		OperationID: "listen", Method: http.MethodGet, Path: "/v1/events", Summary: "What happens on this instance, as server-sent events",
		Description: "Commands: `scheduled`, `canceled`, `ignored` (no effect: stale, reached or expired), `rejected` (over its quota, or the database failed; it comes again), `dead-lettered`. " +
			"Timers: `reached`, `expired`, `published` (acked by the broker), `parked`. `heartbeat` every 15 s. `end` is the last event, if the server ends the connection. " +
			"Nothing is repeated that happened while no connection was there. There are 50 connections at most, together with those of /v1/messages, and 10 with the tokens of one tenant.",
		Responses: map[string]*huma.Response{"200": {Description: "A stream. The schema is that of the data of an event.", Content: map[string]*huma.MediaType{eventStream: {Schema: data}}}},
	}
	register(a, op, filtered, func(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
		if events == nil {
			return nil, errNoService
		}
		end, refused := a.actions.streams.begin(accessOf(ctx).tenant)
		if refused != nil {
			return nil, refused
		}
		l := events.listen(timer.TenantID(in.Tenant), in.Only)
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer end()
			defer events.remove(l)
			beat := func() []byte { return serverSent("heartbeat", heartbeatEvent{stamp(time.Now())}) }
			follow(a, c, l.queue, stream[[]byte]{
				contentType: eventStream,
				begin:       beat(),
				show:        func(event []byte) []byte { return event },
				beat:        beat,
				end:         func(reason string) []byte { return serverSent("end", endEvent{reason}) },
			})
		}}, nil
	})
}
