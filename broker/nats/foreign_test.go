package nats_test

import (
	"bufio"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

func TestForeignProducersAreDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		messages := subscribe(t, b, "reader", topic)
		_, js := client(t, e)
		for _, header := range []natsgo.Header{
			nil,
			{"tenantId": {"a", "b"}, "serviceCallId": {"", "c"}},
			{"Status": {"409"}, "Description": {"Consumer Deleted"}}, // what the server says when all is over
			{"Status": {"503"}},
			{"Status": {"100"}, "Nats-Consumer-Stalled": {"$JS.FC.x"}},
			{"Status": {"408"}, "Nats-Pending-Messages": {"-99"}},
			{"_watermill_message_uuid": {""}},
			{"nats-msg-id": {"x"}},
		} {
			for _, body := range []string{"", "x", strings.Repeat("\xff", 900_000)} {
				m := &natsgo.Msg{Subject: topic, Header: header, Data: []byte(body)}
				put(t, js, m)
				expect(t, messages, body)
			}
		}
		for _, header := range []string{"no colon\r\n", ": no name\r\n", "a b: space\r\n", "\x00\xff: \x01\r\n", "Status 503\r\n", "Split: x\r\n Nats-Rollup: all\r\n", strings.Repeat("h", 50_000)} {
			raw(t, e, "NATS/1.0\r\n"+header+"\r\n", "broken")
			expect(t, messages, "broken")
		}
		raw(t, e, "NATS/1.0 409 Consumer Deleted\r\n\r\n", "")
		expect(t, messages, "")
		raw(t, e, "no headers at all", "broken")
		expect(t, messages, "broken")
		publish(t, b, "good")
		expect(t, messages, "good")
	})
}

// raw publishes to the topic what no client library would send.
func raw(t testing.TB, e *embedded.Server, header, body string) {
	t.Helper()
	conn, err := e.InProcessConn()
	must(t, err)
	defer conn.Close()
	answers := bufio.NewReader(conn)
	var sending sync.WaitGroup
	defer sending.Wait()
	sending.Go(func() {
		fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true}\r\nHPUB %s %d %d\r\n%s%s\r\nPING\r\n",
			topic, len(header), len(header)+len(body), header, body)
	})
	for {
		line, err := answers.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "-ERR") {
			t.Fatalf("the server says %q (%v)", line, err)
		}
		if strings.HasPrefix(line, "PONG") {
			return
		}
	}
}

func TestForeignRollupPurgesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		publish(t, b, "one", "two")
		_, js := client(t, e)
		rollup := &natsgo.Msg{Subject: topic, Header: natsgo.Header{"Nats-Rollup": {"all"}}, Data: []byte("evil")}
		if _, err := js.PublishMsg(t.Context(), rollup); err == nil {
			t.Error("the stream takes a rollup")
		}
		messages := subscribe(t, b, "reader", topic)
		got := make(map[string]bool)
		for range 2 {
			msg := <-messages
			got[string(msg.Payload)] = true
			msg.Ack()
		}
		if !got["one"] || !got["two"] {
			t.Errorf("left are %v", got)
		}
	})
}

// A producer chooses the ids of its commands, and can work out those of others. The stream takes an id only once,
// whatever the subject.
func TestForeignMessageWithOurIDHidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := syncing(t)
		b := ready(t, nats.Options{Server: e})
		_, js := client(t, e)
		messages := subscribe(t, b, "reader", topic)
		for i, n := range []int{1, 2, 100} {
			var batch []*message.Message
			missing := make(map[string]bool)
			for j := range n {
				m := message.NewMessage(fmt.Sprintf("event-%d-%d", i, j), fmt.Appendf(nil, "event %d", j))
				batch, missing[string(m.Payload)] = append(batch, m), true
			}
			// One has the id of an event and its body, on another subject; the other one the subject.
			for j, taken := range []*natsgo.Msg{{Subject: "timer.commands", Data: batch[0].Payload}, {Subject: topic, Data: []byte("evil")}} {
				put(t, js, taken, jetstream.WithMsgID(batch[j*n/2].UUID))
			}
			must(t, try(b, topic, batch...))
			for len(missing) > 0 {
				select {
				case msg := <-messages:
					delete(missing, string(msg.Payload))
					msg.Ack()
				case <-time.After(time.Minute):
					t.Fatalf("of %d events these are missing: %v", n, missing)
				}
			}
		}
	})
}
