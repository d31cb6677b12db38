package app_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A traced is a command, and the correlation and trace that its event is to have.
type traced struct {
	name        string
	body        string
	headers     map[string]string
	correlation string
	trace       timer.Trace
}

const (
	bodyParent   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	headerParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

// tracedCommands are commands, due at a time, in both formats that carry
// correlation and trace nowhere, in headers only, in the body only, and in both.
func tracedCommands(now, due time.Time) []traced {
	headers := map[string]string{
		"correlationId": "from-header", "traceparent": headerParent, "tracestate": "h=1",
		"Nats-Expected-Last-Subject-Sequence": "77", "CC": "svc.evil.serviceCall", "type": "DueTimeReached", "tenantId": "acme", "messageId": "evil",
	}
	var all []traced
	call := func() string { return fmt.Sprint("call-", len(all)) }
	payload := func() string {
		return fmt.Sprintf(`{"tenantId":"acme","serviceCallId":%q,"dueAt":%q}`, call(), envelope.FormatTime(due))
	}
	plain := func(more string) string {
		return fmt.Sprintf(`{"id":%q,"type":"ScheduleTimer","tenantId":"acme","timestampMs":%d%s,"payload":%s}`, call(), now.UnixMilli(), more, payload())
	}
	cloud := func(more string) string {
		return fmt.Sprintf(`{"specversion":"1.0","source":"/test","id":%q,"type":"ScheduleTimer","time":%q%s,"data":%s}`, call(), envelope.FormatTime(now), more, payload())
	}
	inHeaders := timer.Trace{Parent: headerParent, State: "h=1"}
	inBody := timer.Trace{Parent: bodyParent, State: "b=1"}
	const attributes = `,"correlationid":"from-body","traceparent":"` + bodyParent + `","tracestate":"b=1"`
	for _, c := range []struct {
		name        string
		write       func(more string) string
		more        string
		headers     map[string]string
		correlation string
		trace       timer.Trace
	}{
		{"envelope, nothing", plain, "", nil, "", timer.Trace{}},
		{"envelope, headers only", plain, "", headers, "from-header", inHeaders},
		{"envelope, body only", plain, `,"correlationId":"from-body"`, nil, "from-body", timer.Trace{}},
		{"envelope, both", plain, `,"correlationId":"from-body"`, headers, "from-body", inHeaders},
		{"CloudEvent, nothing", cloud, "", nil, "", timer.Trace{}},
		{"CloudEvent, headers only", cloud, "", headers, "from-header", inHeaders},
		{"CloudEvent, body only", cloud, attributes, nil, "from-body", inBody},
		{"CloudEvent, both", cloud, attributes, headers, "from-body", inBody},
	} {
		all = append(all, traced{c.name, c.write(c.more), c.headers, c.correlation, c.trace})
	}
	return all
}

// TestCorrelationAndTraceReachTheEvent sends commands through the whole app, and
// compares headers and body of each event with what was asked for.
func TestCorrelationAndTraceReachTheEvent(t *testing.T) {
	for _, format := range []envelope.Format{{}, {CloudEvents: true, Source: "urn:example:timers"}} {
		t.Run(fmt.Sprintf("%+v", format), func(t *testing.T) {
			inBubbles(t, func(t *testing.T, b *bench) {
				s := b.openStore(format)
				b.serve(s, app.Options{})
				now := time.Now()
				due := now.Add(time.Hour)
				commands := tracedCommands(now, due)
				for i, c := range commands {
					m := message.NewMessage(fmt.Sprint("call-", i), []byte(c.body))
					maps.Copy(m.Metadata, c.headers)
					if err := broker.NewWatermillPublisher(b.broker.Publisher()).Publish(b.broker.Routing().Commands, m); err != nil {
						t.Fatal(err)
					}
				}
				want := make(map[string]traced)
				for i, c := range commands {
					want[fmt.Sprint("call-", i)] = c
				}
				for range commands {
					msg := <-b.events
					call := msg.Metadata.Get("serviceCallId")
					checkTraced(t, format, msg, want[call], timer.DueTimeReached{
						Key:       timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)},
						CommandID: call, DueAt: due,
					})
					delete(want, call)
					msg.Ack()
				}
				if len(want) > 0 {
					t.Errorf("no events for %v", want)
				}
				synctest.Wait()
			})
		})
	}
}

// checkTraced compares an event with what its command asked for.
func checkTraced(t *testing.T, format envelope.Format, msg *message.Message, c traced, e timer.DueTimeReached) {
	t.Helper()
	m, err := envelope.Decode(msg.Payload)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	e.ReachedAt = m.Payload.(timer.DueTimeReached).ReachedAt
	e.CorrelationID, e.Trace = c.correlation, c.trace
	if diff := cmp.Diff(string(format.Reached(e)), string(msg.Payload)); diff != "" {
		t.Errorf("%s: body (-want +got):\n%s", c.name, diff)
	}
	headers := maps.Clone(msg.Metadata)
	for _, name := range []string{broker.MetaTopic, broker.MetaPosition, broker.MetaDelivery} {
		delete(headers, name)
	}
	if diff := cmp.Diff(message.Metadata(format.HeadersOf(e)), headers); diff != "" {
		t.Errorf("%s: headers (-want +got):\n%s", c.name, diff)
	}
}

// openStore opens another database, whose events have a format.
func (b *bench) openStore(format envelope.Format) *sqlite.Store {
	b.t.Helper()
	s, err := sqlite.Open(b.t.Context(), filepath.Join(b.t.TempDir(), "formatted.db"), sqlite.Options{Events: format})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return s
}
