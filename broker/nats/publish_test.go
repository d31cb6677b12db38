package nats_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

func TestLargeMessagesInFlightAreBounded(t *testing.T) {
	longtest.NotShort(t)
	t.Run("bodies", func(t *testing.T) {
		inFlightAreBounded(t, 100, 10, 80, nil, make([]byte, 1_000_000))
	})
	const most = 60_000 // bytes of headers that a server takes
	t.Run("one large header", func(t *testing.T) {
		inFlightAreBounded(t, 1300, 500, 1200, message.Metadata{"a": strings.Repeat("x", most)}, nil)
	})
	t.Run("many small headers, which take more memory than on the wire", func(t *testing.T) {
		metadata := make(message.Metadata)
		for i := range most / 8 {
			metadata[fmt.Sprintf("%x", i)] = ""
		}
		inFlightAreBounded(t, 150, 10, 100, metadata, nil)
	})
}

// inFlightAreBounded publishes n messages of a kind, acks none, and wants at
// least and at most the given numbers of them in flight.
func inFlightAreBounded(t *testing.T, n, least, most int, metadata message.Metadata, body []byte) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := ready(t, nats.Options{Server: serve(t)})
		all := make([]*message.Message, n)
		for i := range all {
			all[i] = message.NewMessage(fmt.Sprint(i), body)
			all[i].Metadata = metadata
		}
		for part := range slices.Chunk(all, 50) {
			must(t, try(b, topic, part...))
		}
		messages := subscribe(t, b, "reader", topic)
		var held []*message.Message
		for more := true; more; {
			select {
			case msg := <-messages:
				held = append(held, msg)
			case <-time.After(time.Minute):
				more = false
			}
		}
		if len(held) < least || len(held) > most {
			t.Errorf("%d in flight, want from %d to %d", len(held), least, most)
		}
		seen := make(map[string]bool)
		for len(seen) < n {
			for _, msg := range held {
				seen[msg.UUID] = true
				msg.Ack()
			}
			held = held[:0]
			if len(seen) < n {
				held = append(held, <-messages)
			}
		}
	})
}

// TestFullStreamIsRed fills a stream. Ready says so soon, with its limit and the setting, and
// takes it back when there is room; a start with a larger limit makes some. It runs in real
// time: when its limits are changed, a server takes the messages of a bubble for old ones.
func TestFullStreamIsRed(t *testing.T) {
	t.Parallel()
	e := syncing(t)
	_, js := client(t, e)
	b := ready(t, nats.Options{Server: e, MaxBytes: 1 << 20})
	var err error
	for range 100 {
		if err = try(b, topic, message.NewMessage(uuid.NewString(), make([]byte, 60_000))); err != nil {
			break
		}
	}
	if !errors.Is(err, broker.ErrUnavailable) {
		t.Fatalf("a full stream: %v", err)
	}
	until(t, "a broker that is not ready, by the limit", func() bool {
		err = b.Ready(t.Context())
		return err != nil && !strings.Contains(err.Error(), "publishes are refused")
	})
	if !strings.Contains(err.Error(), "stream svc") || !strings.Contains(err.Error(), "1048576") || !strings.Contains(err.Error(), "nats_max_bytes") {
		t.Errorf("a full stream: %v", err)
	}
	history, _ := b.History()
	if logs, err := history.Logs(t.Context(), "timer-service"); err != nil || len(logs) == 0 || logs[0].MaxBytes != 1<<20 || logs[0].Bytes < 900_000 {
		t.Errorf("logs %+v, %v", logs, err)
	}
	limits := func() (int64, time.Duration) {
		stream := streamOf(t, js)
		return stream.CachedInfo().Config.MaxBytes, stream.CachedInfo().Config.MaxAge
	}
	const day = 24 * time.Hour
	ready(t, nats.Options{Server: e, MaxBytes: 4 << 20, MaxAge: 5 * day})
	if bytes, age := limits(); bytes != 4<<20 || age != 5*day {
		t.Fatalf("the limits are %d and %v, and not what is configured now", bytes, age)
	}
	awaitReady(t, b)
	if err := try(b, topic, message.NewMessage("id", nil)); err != nil {
		t.Error(err)
	}
	ready(t, nats.Options{Server: e, MaxBytes: 1 << 20, MaxAge: 2 * day}) // which would be full, and drop what is older
	if bytes, age := limits(); bytes != 4<<20 || age != 5*day {
		t.Errorf("limits of %d and %v are applied, which drop messages, or take none", bytes, age)
	}
}

// TestDuplicateThatCannotBeReadNowIsNotStoredTwice has the server answer as one of a cluster
// does that has no leader: the stream says that it has a message already, and can't say for
// a moment which one.
func TestDuplicateThatCannotBeReadNowIsNotStoredTwice(t *testing.T) {
	t.Parallel()
	s := guarded(t, &server.Options{})
	b := ready(t, nats.Options{URL: s.ClientURL()})
	m := message.NewMessage(uuid.NewString(), []byte("once"))
	must(t, try(b, topic, m))
	conn, js := connected(t, s)
	const gets, busy = "$JS.API.STREAM.MSG.GET.svc", `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`
	if _, err := conn.Subscribe("busy", func(m *natsgo.Msg) { _ = m.Respond([]byte(busy)) }); err != nil {
		t.Fatal(err)
	}
	must(t, conn.Flush())
	must(t, s.GlobalAccount().AddMapping(gets, "busy"))
	if err := try(b, topic, m); err == nil || errors.Is(err, broker.ErrRefused) {
		t.Errorf("%v for a message of which it is not known whether it is stored", err)
	}
	s.GlobalAccount().RemoveMapping(gets)
	if err := try(b, topic, m); err != nil {
		t.Error(err)
	}
	if n := streamOf(t, js).CachedInfo().State.Msgs; n != 1 {
		t.Errorf("the stream has %d copies of the message", n)
	}
}

// TestLargeCallsGoOutInBatches wants the header that a batch leaves: in those
// of a large call, unless the stream takes no batches. Clients ask first.
func TestLargeCallsGoOutInBatches(t *testing.T) {
	for _, tt := range []struct {
		messages      int
		allow, client bool
		want          bool
	}{
		{2500, true, false, true}, {400, true, true, true}, {99, true, false, false}, {400, false, false, false}, {400, false, true, false},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := syncing(t)
				_, js := client(t, e)
				stream := makeStream(t, js, jetstream.StreamConfig{
					Name: "svc", Subjects: []string{"svc.>", "timer.commands"}, Discard: jetstream.DiscardNew, MaxBytes: 1 << 30, AllowAtomicPublish: tt.allow,
				})
				b := ready(t, nats.Options{Server: e, Client: tt.client})
				all := make([]broker.Message, tt.messages)
				for i := range all {
					all[i] = event("acme", nil)
				}
				must(t, broker.Join(b.Publisher().Publish(t.Context(), all...)))
				for i, sent := range all {
					m, err := stream.GetMsg(t.Context(), uint64(i)+1)
					must(t, err)
					if got := m.Header.Get("Nats-Batch-Id") != ""; got != tt.want || m.Header.Get("Nats-Msg-Id") != sent.UUID {
						t.Fatalf("message %d has the headers %v; want a batch: %t", i, m.Header, tt.want)
					}
				}
			})
		})
	}
}
