package nats_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
)

// readEvents returns all events, as text.
func readEvents(t testing.TB, b *nats.Broker) (all []string) {
	t.Helper()
	must(t, b.Read(t.Context(), broker.Events, nil, nil, func(batch []broker.Stored) error {
		for _, m := range batch {
			if m.Message.Metadata[broker.MetaNoID] != "" { // it has got a random one
				m.Message.UUID = ""
			}
			all = append(all, fmt.Sprint(m.Log, m.Number, m.At, m.Message.UUID, maps.Collect(maps.All(m.Message.Metadata)), len(m.Message.Payload)))
		}
		return nil
	}))
	return all
}

// allowDirect sets whether the stream has direct gets.
func allowDirect(t testing.TB, js jetstream.JetStream, allowed bool) {
	t.Helper()
	config := streamOf(t, js).CachedInfo().Config
	config.AllowDirect = allowed
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// connected returns a connection with a server that knows nothing of ours.
func connected(t testing.TB, s *server.Server) (*natsgo.Conn, jetstream.JetStream) {
	t.Helper()
	return dial(t, s.ClientURL())
}

// TestReadingTakesFewRequests has messages with headers by which the answer to a direct get is
// told from its end. They come as they are read one by one, from the leader.
func TestReadingTakesFewRequests(t *testing.T) {
	t.Parallel()
	s := guarded(t, &server.Options{})
	b := ready(t, nats.Options{URL: s.ClientURL()})
	conn, js := connected(t, s)
	send := func(header natsgo.Header, body []byte) {
		t.Helper()
		put(t, js, &natsgo.Msg{Subject: topic, Header: header, Data: body})
	}
	for i := range 3 {
		for _, e := range [][]string{
			{"messageId", "plain"},
			{"Status", "404"},
			{"Status", "503"},
			{"Status", "204"},
			{"Nats-Stream", "other"},
			{"Nats-Sequence", "1"},
			{"Nats-Subject", "svc.beta.serviceCall"},
			{"Nats-Time-Stamp", "never"},
			{"Nats-Num-Pending", "0"},
			{"Nats-Last-Sequence", "7"},
			{"nats-stream", "other"},
			{"a", "1", "2"},
		} {
			send(natsgo.Header{e[0]: e[1:]}, []byte(strconv.Itoa(i)))
		}
		send(nil, nil)
		send(nil, bytes.Repeat([]byte("x"), 900_000)) // some of these are more than one answer
		must(t, try(b, topic, events(1000)...))
		send(natsgo.Header{natsgo.MsgIdHdr: {fmt.Sprint("id-", i)}}, bytes.Repeat([]byte("y"), 900_000))
	}
	var requests atomic.Int64
	if _, err := conn.Subscribe("$JS.API.>", func(*natsgo.Msg) { requests.Add(1) }); err != nil {
		t.Fatal(err)
	}
	must(t, conn.Flush())
	got := readEvents(t, b)
	if n := requests.Load(); n > 30 {
		t.Errorf("%d requests for %d messages", n, len(got))
	}
	allowDirect(t, js, false)
	if diff := cmp.Diff(readEvents(t, b), got); diff != "" || len(got) != 3*1015 {
		t.Errorf("%d messages, (-one by one +direct):\n%s", len(got), diff)
	}
}

// TestEmptyMessageThatLooksLikeNoServerIsRead: the client library takes it for the answer that
// nobody answers.
func TestEmptyMessageThatLooksLikeNoServerIsRead(t *testing.T) {
	t.Parallel()
	s := guarded(t, &server.Options{})
	b := ready(t, nats.Options{URL: s.ClientURL()})
	_, js := connected(t, s)
	publish(t, b, "before")
	put(t, js, &natsgo.Msg{Subject: topic, Header: natsgo.Header{"Status": {"503"}}})
	publish(t, b, "after")
	if n := replayed(t, b, broker.Events); n != 3 {
		t.Errorf("%d of 3 messages", n)
	}
}

// TestMirrorThatAnswersHidesNothing has a mirror that began later than the stream and answers
// some of its direct gets.
func TestMirrorThatAnswersHidesNothing(t *testing.T) {
	t.Parallel()
	s := guarded(t, &server.Options{})
	b := ready(t, nats.Options{URL: s.ClientURL()})
	_, js := connected(t, s)
	publish(t, b, "1", "2", "3", "4", "5", "6")
	mirror := makeStream(t, js, jetstream.StreamConfig{
		Name: "mirror", Mirror: &jetstream.StreamSource{Name: "svc", OptStartSeq: 4}, MirrorDirect: true, AllowDirect: true,
	})
	until(t, "a mirror that has messages", func() bool {
		info, err := mirror.Info(t.Context())
		return err == nil && info.State.Msgs == 3
	})
	for range 20 {
		if n := replayed(t, b, broker.Events); n != 6 {
			t.Fatalf("%d of 6 messages", n)
		}
	}
}

// directly returns the headers of a message in the answer to a direct get, behind the last one.
func directly(sequence, last int) natsgo.Header {
	return natsgo.Header{
		"Nats-Stream": {"svc"}, "Nats-Subject": {topic}, "Nats-Sequence": {strconv.Itoa(sequence)}, "Nats-Time-Stamp": {"2026-01-02T03:04:05Z"},
		"Nats-Num-Pending": {"1"}, "Nats-Last-Sequence": {strconv.Itoa(last)},
	}
}

// directEnd returns the headers of the end of such an answer.
func directEnd(last int) natsgo.Header {
	return natsgo.Header{"Status": {"204"}, "Nats-Num-Pending": {"0"}, "Nats-Last-Sequence": {strconv.Itoa(last)}}
}

// TestAnswerThatLacksMessagesIsNotTheLast answers direct gets as a server does whose messages
// are lost on their way, and as one that is behind.
func TestAnswerThatLacksMessagesIsNotTheLast(t *testing.T) {
	t.Parallel()
	const subject = "$JS.API.DIRECT.GET.svc"
	message, end := directly, directEnd
	none := []natsgo.Header{{"Status": {"404"}}}
	for name, replies := range map[string][][]natsgo.Header{
		"behind":         {none},
		"first missing":  {{message(2, 1), message(3, 2), end(3)}, none},
		"middle missing": {{message(1, 0), message(3, 2), end(3)}, none},
		"last missing":   {{message(1, 0), message(2, 1), end(3)}, none},
		"all missing":    {{end(3)}, none},
		"old server":     {{{"Nats-Stream": {"svc"}, "Nats-Subject": {topic}, "Nats-Sequence": {"1"}, "Nats-Time-Stamp": {"2026-01-02T03:04:05Z"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := guarded(t, &server.Options{})
			b := ready(t, nats.Options{URL: s.ClientURL()})
			publish(t, b, "1", "2", "3")
			conn, _ := connected(t, s)
			if _, err := conn.Subscribe("fake", func(m *natsgo.Msg) {
				for _, header := range replies[0] {
					if err := conn.PublishMsg(&natsgo.Msg{Subject: m.Reply, Header: header}); err != nil {
						t.Error(err)
					}
				}
				if len(replies) > 1 {
					replies = replies[1:]
				}
			}); err != nil {
				t.Fatal(err)
			}
			must(t, conn.Flush())
			must(t, s.GlobalAccount().AddMapping(subject, "fake"))
			if n := replayed(t, b, broker.Events); n != 3 {
				t.Errorf("%d of 3 messages", n)
			}
		})
	}
}

// TestMessagesOfAnAnswerMayComeSlowly has each message of an answer take three seconds, as over a
// link of some Mbit/s: all of them take longer than a request may.
func TestMessagesOfAnAnswerMayComeSlowly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := guarded(t, &server.Options{DontListen: true})
		b := ready(t, nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(s)}})
		publish(t, b, "1", "2", "3")
		conn, _ := dial(t, "", natsgo.InProcessServer(s))
		if _, err := conn.Subscribe("slow", func(m *natsgo.Msg) {
			for _, header := range []natsgo.Header{directly(1, 0), directly(2, 1), directly(3, 2), directEnd(3)} {
				<-time.After(3 * time.Second)
				_ = conn.PublishMsg(&natsgo.Msg{Subject: m.Reply, Header: header})
			}
		}); err != nil {
			t.Fatal(err)
		}
		must(t, conn.Flush())
		must(t, s.GlobalAccount().AddMapping("$JS.API.DIRECT.GET.svc", "slow"))
		began := time.Now()
		if n := replayed(t, b, broker.Events); n != 3 || time.Since(began) > 13*time.Second {
			t.Errorf("%d of 3 messages after %v", n, time.Since(began))
		}
	})
}

// TestManyMessagesMayComeSlowly has each message that is asked for alone, as dead letters are,
// take a second.
func TestManyMessagesMayComeSlowly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := guarded(t, &server.Options{DontListen: true})
		b := ready(t, nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(s)}})
		const n = 40
		for range n {
			send(t, b, "svc.acme.dlq", "letter")
		}
		conn, _ := dial(t, "", natsgo.InProcessServer(s))
		if _, err := conn.Subscribe("slow", func(m *natsgo.Msg) {
			var request struct{ Seq int }
			must(t, json.Unmarshal(m.Data, &request))
			answer := `{"error":{"code":404,"err_code":10037}}`
			if request.Seq <= n {
				answer = fmt.Sprintf(`{"message":{"subject":"svc.acme.dlq","seq":%d,"time":"2026-01-02T03:04:05Z"}}`, request.Seq)
			}
			<-time.After(time.Second)
			_ = m.Respond([]byte(answer))
		}); err != nil {
			t.Fatal(err)
		}
		must(t, conn.Flush())
		must(t, s.GlobalAccount().AddMapping("$JS.API.STREAM.MSG.GET.svc", "slow"))
		if got := visits(t, b, false); got != n {
			t.Errorf("%d of %d dead letters", got, n)
		}
		<-time.After(time.Minute) // until it has answered all
	})
}

// TestReadingWithoutThePermissionForDirectGets reads one by one.
func TestReadingWithoutThePermissionForDirectGets(t *testing.T) {
	t.Parallel()
	b := ready(t, user(provisioned(t, 0, `"$JS.API.DIRECT.GET.svc"`), "service"))
	publish(t, b, "1", "2", "3")
	if n := replayed(t, b, broker.Events); n != 3 {
		t.Errorf("%d of 3 messages", n)
	}
}

// TestStreamOfEarlierVersionGetsDirectGets: one that the service has made, and no other.
func TestStreamOfEarlierVersionGetsDirectGets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		verify, ours, want bool
	}{
		"ours": {ours: true, want: true}, "with verify": {ours: true, verify: true}, "another's": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := serve(t)
			provision(t, e)
			_, js := client(t, e)
			config := streamOf(t, js).CachedInfo().Config
			config.AllowDirect = false
			if !test.ours {
				delete(config.Metadata, "timer-service")
			}
			if _, err := js.UpdateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			ready(t, nats.Options{Server: e, Verify: test.verify})
			if got := streamOf(t, js).CachedInfo().Config.AllowDirect; got != test.want {
				t.Errorf("allow_direct is %v", got)
			}
		})
	}
}
