package brokertest

import (
	"maps"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// visibleASCII returns every visible character of ASCII, n bytes in all.
func visibleASCII(n int) string {
	var all strings.Builder
	for c := byte('!'); c <= '~'; c++ {
		all.WriteByte(c)
	}
	return strings.Repeat(all.String(), n/all.Len()+1)[:n]
}

// events returns events whose headers are as few and short, and as many and
// long, as they may be.
func events() []timer.DueTimeReached {
	due := time.Date(2030, 1, 31, 11, 30, 0, 5e8, time.UTC)
	bare := timer.DueTimeReached{
		Key: timer.Key{TenantID: "a", ServiceCallID: "c"}, CommandID: "1", DueAt: due, ReachedAt: due,
	}
	full := bare
	full.Key = timer.Key{
		TenantID:      timer.TenantID("A" + strings.Repeat("_-9z", 15) + "tnt"),
		ServiceCallID: timer.ServiceCallID(strings.Repeat("az.:-_09", 16)),
	}
	full.CorrelationID = visibleASCII(128)
	full.Trace = timer.Trace{Parent: traceParent, State: "v=" + visibleASCII(200) + ", w= \\\"%00;" + strings.Repeat("x", 299)}
	noState := full
	noState.CommandID, noState.Trace.State = "2", ""
	return []timer.DueTimeReached{bare, full, noState}
}

// headersArrive publishes events as the forwarder does.
func headersArrive(w *world) {
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	for i, e := range events() {
		sent := message.NewMessage(envelope.EventID(e), envelope.Reached(e))
		sent.Metadata = envelope.HeadersOf(e)
		if i == 1 {
			sent.Metadata.Set("content-type", "application/cloudevents+json")
		}
		want := maps.Clone(sent.Metadata)
		w.publish(w, topic, sent)

		got := Next(w, messages)
		if got.UUID != sent.UUID || string(got.Payload) != string(sent.Payload) {
			w.Errorf("event %d: got %s %s, want %s %s", i, got.UUID, got.Payload, sent.UUID, sent.Payload)
		}
		for _, name := range []string{broker.MetaTopic, broker.MetaPosition, broker.MetaDelivery} {
			delete(got.Metadata, name)
		}
		if diff := cmp.Diff(want, got.Metadata); diff != "" {
			w.Errorf("event %d: headers (-want +got):\n%s", i, diff)
		}
		got.Ack()
	}
}
