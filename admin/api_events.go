package admin

import (
	"context"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
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

// tuneEvents describes the answer. Generators take the schema of a stream for the schema of the
// data of one event.
func tuneEvents(a *api, op *huma.Operation) {
	data := new(huma.Schema)
	for _, event := range []any{Happening{}, heartbeatEvent{}, endEvent{}} {
		data.OneOf = append(data.OneOf, a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(event), true, ""))
	}
	op.Responses["200"] = &huma.Response{Description: "A stream. The schema is that of the data of an event.", Content: map[string]*huma.MediaType{eventStream: {Schema: data}}}
}

func (a *api) listen(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	if a.Events == nil {
		return nil, errNoService
	}
	end, refused := a.streams.begin(accessOf(ctx).tenant)
	if refused != nil {
		return nil, refused
	}
	l := a.Events.listen(in.Tenant, in.Only)
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer end()
		defer a.Events.remove(l)
		beat := func() []byte { return serverSent("heartbeat", heartbeatEvent{stamp(time.Now())}) }
		follow(a, c, l.queue, stream[[]byte]{
			contentType: eventStream,
			begin:       beat(),
			show:        func(event []byte) []byte { return event },
			beat:        beat,
			end:         func(reason string) []byte { return serverSent("end", endEvent{reason}) },
		})
	}}, nil
}
