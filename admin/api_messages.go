package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// JSONLines is the type of a body that has a JSON value on each line.
const JSONLines = "application/jsonl"

// eventStream is the type of a body of server-sent events.
const eventStream = "text/event-stream"

// heartbeatInterval is how often a stream shows that its connection works.
const heartbeatInterval = 15 * time.Second

// writeTimeout is how long a client of a stream may take to read a message.
const writeTimeout = 5 * time.Second

// A Message is a message that the broker has delivered.
type Message struct {
	At       string            `json:"at" format:"date-time" doc:"When it arrived at the service."`
	Topic    string            `json:"topic"`
	Position string            `json:"position,omitempty" doc:"In its topic."`
	ID       string            `json:"id" doc:"Of the message, not of the command in it."`
	Headers  map[string]string `json:"headers,omitempty"`
	Body     json.RawMessage   `json:"body,omitempty" doc:"As JSON if it is JSON, otherwise as text."`
	Base64   *string           `json:"bodyBase64,omitempty" doc:"Instead, if it is not UTF-8."`
}

func showMessage(m *message.Message) Message {
	s := Message{
		At: stamp(time.Now()), Topic: m.Metadata.Get(broker.MetaTopic), Position: m.Metadata.Get(broker.MetaPosition), ID: m.UUID,
		Headers: maps.Clone(m.Metadata), Body: json.RawMessage(m.Payload),
	}
	for _, name := range []string{broker.MetaTopic, broker.MetaPosition, broker.MetaDelivery, broker.MetaNoID} {
		delete(s.Headers, name)
	}
	switch {
	case !utf8.Valid(m.Payload):
		s.Body, s.Base64 = nil, new(base64.StdEncoding.EncodeToString(m.Payload))
	case !json.Valid(m.Payload):
		s.Body, _ = json.Marshal(string(m.Payload)) // a string can be marshaled
	}
	return s
}

type messagesInput struct {
	Kind string `path:"kind" enum:"commands,events,receipts,deadletters"`
	OwnerQuery
}

// messages answers with the messages of a topic, until the client goes away, the server
// stops, or a heartbeat finds that the token is no longer valid.
func (a *api) messages(ctx context.Context, in *messagesInput) (*huma.StreamResponse, error) {
	if a.Broker == nil {
		return nil, errNoBroker
	}
	tenant := timer.TenantID(in.Tenant)
	topic, shared, err := topicOf(a.Broker.Routing(), in.Kind, tenant)
	if err != nil {
		return nil, err
	}
	end, refused := a.streams.begin(accessOf(ctx).tenant)
	if refused != nil {
		return nil, refused
	}
	messages, closeTail, err := a.tail(ctx, topic)
	if err != nil {
		end()
		if errors.Is(err, broker.ErrRefused) && tenant == "" && !shared { // the service may not subscribe to a wildcard
			err = broker.ErrNameTenant
		}
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer end()
		defer closeTail()
		follow(a, c, messages, stream[*message.Message]{
			contentType: JSONLines,
			show: func(m *message.Message) (line []byte) {
				mine := !shared || tenant == "" || tenantOf(m) == tenant
				if m.Ack(); mine && deadletter.MarkOf(m) == "" { // marks of operators are no dead letters
					line, _ = json.Marshal(showMessage(m)) // its body is valid JSON
					line = append(line, '\n')
				}
				return line
			},
			beat: func() []byte { return []byte("\n") },
			end:  func(string) []byte { return nil },
		})
	}}, nil
}

// tail returns the messages of a topic from now on, until it is closed.
func (a *api) tail(ctx context.Context, topic string) (messages <-chan *message.Message, closeTail func(), err error) {
	t := a.Broker.Tail()
	closeTail = func() { _ = t.Close() } // closing loses no messages
	if messages, err = t.Subscribe(ctx, topic); err != nil {
		closeTail()
		a.log.WarnContext(ctx, "the messages of a topic can't be read", "topic", topic, "error", err)
		if explain(err) == nil {
			err = errors.Join(errBrokerSilent, err)
		}
	}
	return messages, closeTail, err
}

// A stream says how an answer that does not end by itself shows things of type T.
type stream[T any] struct {
	contentType string
	begin       []byte                     // sent at once, after the headers
	show        func(T) []byte             // nothing if the client does not want it
	beat        func() []byte              // shows that the connection works
	end         func(reason string) []byte // says why the server ends the connection
}

// follow sends things to a client, until the client goes away or is too slow, the server
// stops, or a heartbeat finds that the token is no longer valid.
func follow[T any](a *api, c huma.Context, from <-chan T, s stream[T]) {
	_, client := humago.Unwrap(c)
	w := http.NewResponseController(client)
	_ = w.SetReadDeadline(time.Time{})     // the request's own deadline would end the stream
	c.SetHeader("X-Accel-Buffering", "no") // nginx holds lines back by default
	c.SetHeader("Content-Type", s.contentType)
	c.SetStatus(http.StatusOK)
	if c.Method() == http.MethodHead { // it would wait for a body
		return
	}
	write := func(text []byte) bool {
		_ = w.SetWriteDeadline(time.Now().Add(writeTimeout)) // fails with a recorder, which has no deadline
		_, err := client.Write(text)
		return errors.Join(err, w.Flush()) == nil
	}
	heartbeat := time.NewTicker(heartbeatInterval)
	defer heartbeat.Stop()
	for text := s.begin; write(text); {
		select {
		case <-c.Context().Done():
			return
		case <-a.stopping:
			write(s.end("stopping"))
			return
		case one, open := <-from:
			if !open {
				write(s.end("too_slow"))
				return
			}
			text = s.show(one)
		case <-heartbeat.C:
			if !accessOf(c.Context()).stillRight() {
				write(s.end("token"))
				return
			}
			text = s.beat()
		}
	}
}

// topicOf returns the topic of messages of a kind and tenant, or of all tenants if tenant is
// empty, and whether all tenants share the topic.
func topicOf(r broker.Routing, kind string, tenant timer.TenantID) (topic string, shared bool, err error) {
	template, of := r.Commands, r.CommandsOf
	switch kind {
	case "events":
		template, of = r.Events, r.EventsOf
	case "receipts":
		template, of = r.Receipts, r.ReceiptsOf
	case "deadletters":
		template, of = r.DeadLetters, r.DeadLettersOf
	}
	shared = of(timer.NoTenant) == template
	switch {
	case template == "":
		return "", false, errNoReceipts
	case tenant == "" && !shared && r.Wildcard == "":
		return "", false, broker.ErrNameTenant
	case tenant == "":
		tenant = timer.TenantID(r.Wildcard)
	}
	return of(tenant), shared, nil
}

// tenantOf returns the tenant of a message on a shared topic. Dead letters have the tenant in
// a header, other messages in the body.
func tenantOf(m *message.Message) timer.TenantID {
	if tenant := timer.TenantID(m.Metadata.Get(envelope.HeaderTenantID)); tenant != "" {
		return tenant
	}
	return envelope.TenantOf(m.Payload)
}
