package brokertest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// evil returns messages that a hostile or broken producer may want to send through us. Headers
// that name a destination name this one.
func evil(destination string) (all []*message.Message) {
	for _, body := range []string{
		"", "null", "{", `{"tenantId":"acme"`, "\x00", "\xff\xfe\xfd", `{"tenantId":"a` + "\xc3" + `","aggregateId":"b"}`,
		strings.Repeat("[", 100_000), strings.Repeat("x", envelope.MaxBytes+1),
	} {
		all = append(all, plain(body))
	}
	headers := fences(destination)
	maps.Copy(headers, map[string]string{
		"NATS-ROLLUP": "all", "Nats-Expected-Last-Msg-Id": "x", "Nats-Expected-Last-Subject-Sequence": "7",
		"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "9", "Nats-Batch-Commit": "1", "Nats-Incr": "1",
		"Status": "503", "Description": "No Responders", "": "empty name", "a b": "space", "a:b": "colon", "a\r\nNats-Rollup": "all",
		"split": "a\r\nNats-Rollup: all", "newline": "a\nb", "control": "a\x00\x01\x7fb", "utf8": "\xff\xfe", "spaces": "  a  ",
		"long": strings.Repeat("v", 10_000), strings.Repeat("n", 5_000): "long name", "\xff\xfe": "binary", "é": "umlaut",
	})
	for name, value := range headers {
		m := plain("evil header")
		m.Metadata.Set(name, value)
		all = append(all, m)
	}
	for _, id := range []string{"", " ", "a\r\nb", "a\x00b", strings.Repeat("i", 5_000), "\xff"} {
		all = append(all, message.NewMessage(id, []byte("evil id")))
	}
	call := keyed(strings.Repeat("c", 5_000), "evil key")
	return append(all, call)
}

// fences returns headers that some broker takes for a command to itself, or that some
// library takes for its own. An adapter may leave them out; they must not do anything.
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

func hostile(w *world) {
	topic, elsewhere := w.topic(), w.topic()
	if elsewhere == topic {
		elsewhere = topic + "-elsewhere" // the tenant is no part of it
	}
	messages, strays := w.subscribe(w, "reader", topic), w.subscribe(w, "reader", elsewhere)
	w.know(w, "auditor", topic)
	w.publish(w, topic, keyed("call-1", "good 0"))
	want, refused := []string{"good 0"}, 0
	all := evil(elsewhere)
	for i, m := range all {
		switch err := w.send(topic, m)[0]; {
		case errors.Is(err, broker.ErrRefused):
			refused++
		case err != nil:
			w.Errorf("evil message %d: %v; want none, or one that wraps ErrRefused", i, err)
		default:
			want = append(want, string(m.Payload))
		}
		good := fmt.Sprint("good ", i+1)
		want = append(want, good)
		w.publish(w, topic, keyed("call-1", good)) // it also proves that the connection lives
	}
	w.Logf("%d of %d evil messages were refused", refused, len(all))
	got := make([]string, 0, len(want))
	for range want {
		msg := Next(w, messages)
		if msg.UUID == "" && w.features.Dedupes {
			w.Errorf("%.20q came without an id", msg.Payload)
		}
		for name := range msg.Metadata {
			if strings.HasPrefix(strings.ToLower(name), "nats-") && w.features.Dedupes {
				w.Errorf("%.20q came with the header %s", msg.Payload, name)
			}
		}
		got = append(got, string(msg.Payload))
		msg.Ack()
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("arrived (-want +got):\n%s", diff)
	}
	w.publish(w, elsewhere, plain("sent there"))
	if msg := Next(w, strays); string(msg.Payload) != "sent there" {
		w.Errorf("%q arrived where it was not sent", msg.Payload)
	} else {
		msg.Ack()
	}
	if w.features.Durable { // nothing was purged
		drain(w, w.subscribe(w, "auditor", topic), len(slices.Compact(want)))
	}
}

func hostileTopics(w *world) {
	good := w.topic()
	messages := w.subscribe(w, "reader", good)
	r := w.Routing()
	topics := []string{"", strings.Repeat("t", 5_000), "a b", "a\r\nPUB x 1", "a\x00", "\xff"}
	for _, tenant := range []string{strings.Repeat("t", 5_000), "a b", "a\r\nPUB x 1", "a\x00", "\xff", "*", ">", "a*", "a..b", ""} {
		topics = append(topics, r.EventsOf(timer.TenantID(tenant)))
	}
	topics = append(topics, ".", good+".", "."+good, "$SYS.REQ.SERVER.PING", "$JS.API.STREAM.PURGE.svc")
	for i, topic := range topics {
		if topic == good {
			continue // the tenant is no part of it
		}
		err := w.send(topic, plain("evil"))[0]
		if err != nil && !errors.Is(err, broker.ErrRefused) || err == nil && (w.features.Wildcards || topic == "") {
			w.Errorf("publish to %.40q: %v, want one that wraps ErrRefused", topic, err)
		}
		text := fmt.Sprint("good ", i)
		w.publish(w, good, plain(text))
		if msg := Next(w, messages); string(msg.Payload) != text {
			w.Errorf("got %q", msg.Payload)
		} else {
			msg.Ack()
		}
	}
}

func dedupes(w *world) {
	topic, other := w.topic(), w.topic()
	messages := w.subscribe(w, "reader", topic)
	all := many(50)
	for range 3 {
		w.publish(w, topic, all[0]) // alone
		w.publish(w, topic, all...) // and with others, which the broker knows, too
	}
	w.publish(w, other, all[0]) // in another topic as well
	w.publish(w, topic, keyed("last", "last"))
	for msg := Next(w, messages); string(msg.Payload) != "last"; msg = Next(w, messages) {
		i := slices.IndexFunc(all, func(m *message.Message) bool { return m.UUID == msg.UUID })
		if i < 0 {
			w.Fatalf("message %s came twice", msg.UUID)
		}
		all = slices.Delete(all, i, i+1)
		msg.Ack()
	}
	if len(all) > 0 {
		w.Errorf("%d messages did not come", len(all))
	}
}

func wildcards(w *world) {
	r := w.Routing()
	messages := w.subscribe(w, "reader", r.EventsOf("*"))
	var want, got []string
	for i := range 50 {
		topic := r.EventsOf(timer.TenantID(fmt.Sprint("tenant-", i)))
		want = append(want, topic)
		w.publish(w, topic, plain("event"))
		w.publish(w, r.DeadLettersOf(timer.TenantID(fmt.Sprint("tenant-", i))), plain("dead letter"))
	}
	for range want {
		msg := Next(w, messages)
		got = append(got, msg.Metadata.Get(broker.MetaTopic))
		msg.Ack()
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("topics (-want +got):\n%s", diff)
	}
}
