package brokertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	otherParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

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

		got := next(w, messages)
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

// A headed is a command, what its headers are, and what of them is to be read.
type headed struct {
	what          string
	headers       map[string]string
	correlationID string
	trace         timer.Trace
}

// headedCommands are commands whose bodies name neither correlation nor trace.
func headedCommands() []headed {
	longState := "a=" + strings.Repeat("x", 510)
	both := func(more map[string]string) map[string]string {
		h := map[string]string{"correlationId": "corr", "traceparent": traceParent, "tracestate": "a=b"}
		maps.Copy(h, more)
		return h
	}
	full := timer.Trace{Parent: traceParent, State: "a=b"}
	return []headed{
		{"no headers", nil, "", timer.Trace{}},
		{"correlation and trace", both(nil), "corr", full},
		{"no tracestate", map[string]string{"traceparent": traceParent}, "", timer.Trace{Parent: traceParent}},
		{"tracestate alone", map[string]string{"tracestate": "a=b"}, "", timer.Trace{}},
		{"longest values", both(map[string]string{"correlationId": visibleASCII(128), "tracestate": longState}), visibleASCII(128), timer.Trace{Parent: traceParent, State: longState}},
		{"values too long", both(map[string]string{"correlationId": visibleASCII(129), "tracestate": longState + "x"}), "", timer.Trace{Parent: traceParent}},
		{"values malformed", both(map[string]string{"correlationId": "a b", "traceparent": strings.ToUpper(traceParent)}), "", timer.Trace{}},
		{"trace as HTTP libraries write it", map[string]string{"Traceparent": traceParent, "Tracestate": "a=b"}, "", full},
		{"trace in capitals", map[string]string{"TRACEPARENT": traceParent, "TRACESTATE": "a=b"}, "", full},
		{"trace twice", both(map[string]string{"Traceparent": otherParent, "TRACEPARENT": otherParent, "Tracestate": "c=d"}), "corr", full},
		{"correlation in other letters", map[string]string{"CorrelationID": "corr", "correlationid": "corr", "correlation_id": "corr", "X-Correlation-Id": "corr"}, "", timer.Trace{}},
		{"headers of another message", both(map[string]string{
			"type": "DueTimeReached", "tenantId": "evil", "serviceCallId": "evil", "messageId": "evil", "causationId": "evil", "timestampMs": "1", "dueAt": "2001-01-01T00:00:00Z",
		}), "corr", full},
		{"headers of a dead letter", both(map[string]string{
			"type": "DeadLetter", "deadLetterTopic": "evil", "deadLetterReason": "evil", "deadLetterCount": "7", "deadLetterOriginalId": "evil",
		}), "corr", full},
		{"headers of a CloudEvent", both(map[string]string{
			"content-type": "application/cloudevents+json", "ce_type": "CancelTimer", "ce-id": "evil", "cloudEvents:subject": "evil", "ce_specversion": "1.0", "ce_traceparent": otherParent,
		}), "corr", full},
	}
}

// fences are headers that some broker takes for a command to itself, or that
// some library takes for its own. An adapter may leave them out; they must not
// do anything. Those that name a destination name this one.
func fences(destination string) map[string]string {
	return map[string]string{
		"Nats-Rollup": "all", "nats-rollup": "sub", "Nats-Msg-Id": "evil", "Nats-Expected-Stream": "evil", "Nats-TTL": "1s",
		"Nats-Expected-Last-Sequence": "1", "Nats-Schedule": "@every 1s", "Nats-Schedule-Target": destination, "Nats-Trace-Dest": destination,
		"CC": destination, "BCC": destination, "cc": destination, "x-delay": "100000", "x-death": "evil", "x-message-ttl": "1", "expiration": "1",
		"x-match": "all", "x-stream-offset": "0", "x-stream-filter-value": "evil", "x-opt-delivery-delay": "100000", "delivery-mode": "1",
		"reply-to": destination, "user-id": "evil", "app-id": "evil", "message-id": "evil", "priority": "9", "timestamp": "1",
		"__consumer_offsets": "evil", "__transaction_state": "evil", "__key": "evil", "__TypeId__": "evil", "kafka_topic": destination,
		"kafka_replyTopic": destination, "kafka_correlationId": "evil", "kafka_messageKey": "evil", "partition": "7", "offset": "0", "null": "",
		"UUID": "evil", "_watermill_message_uuid": "evil", "correlation_id": "evil", "received_topic": destination,
		broker.MetaTopic: destination, broker.MetaPosition: "1", broker.MetaDelivery: "99",
	}
}

// A recorder is a store that notes the commands it is given.
type recorder struct {
	mu       sync.Mutex
	commands map[timer.ServiceCallID]timer.ScheduleTimer
	times    map[timer.ServiceCallID]int // how often each came
	canceled int
}

func (r *recorder) Schedule(_ context.Context, _ time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range commands {
		r.commands[c.ServiceCallID] = c
		r.times[c.ServiceCallID]++
	}
	return make([]timer.Result, len(commands)), nil
}

func (r *recorder) Cancel(_ context.Context, _ time.Time, commands ...timer.CancelTimer) ([]timer.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.canceled += len(commands)
	return make([]timer.Result, len(commands)), nil
}

// commandHeaders sends commands with headers of all kinds through the handlers:
// correlation and trace cross over, nothing else does.
func commandHeaders(w *world) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	deadLetters := w.subscribe(w, "operator", w.Routing().DeadLettersOf("acme"))
	r := &recorder{commands: make(map[timer.ServiceCallID]timer.ScheduleTimer), times: make(map[timer.ServiceCallID]int)}
	w.runHandlers(r, w.Subscriber("service"), noon)
	cases := headedCommands()
	for name, value := range fences("evil") { // each alone, and beside what is read
		cases = append(cases, headed{"fence " + name, map[string]string{name: value, "correlationId": "corr"}, "corr", timer.Trace{}})
	}
	cases = append(cases, headed{"all fences", fences("evil"), "", timer.Trace{}})

	refused := 0
	want := make(map[timer.ServiceCallID]timer.ScheduleTimer)
	for i, test := range cases {
		command := timer.ScheduleTimer{
			Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", i))},
			Version: timer.Version{TimestampMS: noon.UnixMilli() + int64(i), CommandID: fmt.Sprint("command-", i)},
			DueAt:   noon.Add(time.Hour),
		}
		m := message.NewMessage(fmt.Sprintf("%s-%s", command.CommandID, traceParent), envelope.Schedule(command))
		maps.Copy(m.Metadata, test.headers)
		switch err := w.send(w.Routing().CommandsOf("acme"), m)[0]; {
		case errors.Is(err, broker.ErrRefused):
			refused++
			w.Logf("refused: %s", test.what)
		case err != nil:
			w.Errorf("%s: %v; want none, or one that wraps ErrRefused", test.what, err)
		default:
			command.CorrelationID, command.Trace = test.correlationID, test.trace
			want[command.ServiceCallID] = command
		}
	}
	if refused > 1+len(fences("")) {
		w.Errorf("%d of %d were refused", refused, len(cases))
	}
	await(w, "commands that are handled", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.commands) >= len(want)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.commands); diff != "" {
		w.Errorf("commands (-want +got):\n%s", diff)
	}
	for call, times := range r.times {
		if times != 1 {
			w.Errorf("the command for %s came %d times", call, times)
		}
	}
	if r.canceled > 0 {
		w.Errorf("%d were canceled", r.canceled)
	}
	none(w, deadLetters, 10*time.Millisecond)
}

// fenced publishes messages with headers that some broker takes for commands.
// All that is not refused arrives where it was sent, and nothing anywhere else.
func fenced(w *world) {
	topic, elsewhere := w.topic(), w.topic()
	if elsewhere == topic {
		elsewhere = topic + "-elsewhere" // the tenant is no part of it
	}
	messages, strays := w.subscribe(w, "reader", topic), w.subscribe(w, "reader", elsewhere)
	w.publish(w, topic, keyed("call-1", "first"))
	want := []string{"first"}
	for name, value := range fences(elsewhere) {
		m := keyed("call-1", name)
		m.Metadata.Set(name, value)
		switch err := w.send(topic, m)[0]; {
		case errors.Is(err, broker.ErrRefused):
			w.Logf("refused: %s", name)
		case err != nil:
			w.Errorf("%s: %v; want none, or one that wraps ErrRefused", name, err)
		default:
			want = append(want, name)
		}
	}
	w.publish(w, topic, keyed("call-1", "last"))
	want = append(want, "last")
	var got []string
	for range want {
		msg := next(w, messages)
		got = append(got, string(msg.Payload))
		msg.Ack()
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("arrived (-want +got):\n%s", diff)
	}
	none(w, messages, 10*time.Millisecond)
	w.publish(w, elsewhere, plain("sent there"))
	if msg := next(w, strays); string(msg.Payload) != "sent there" {
		w.Errorf("%q arrived where it was not sent", msg.Payload)
	} else {
		msg.Ack()
	}
}
