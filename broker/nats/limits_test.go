package nats_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

// configured runs a server with lines of a configuration.
func configured(t *testing.T, lines string) *server.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	must(t, os.WriteFile(file, fmt.Appendf(nil, "%s\nlisten: \"127.0.0.1:-1\"\n", strings.ReplaceAll(lines, "STORE", t.TempDir())), 0o600))
	opt, err := server.ProcessConfigFile(file)
	must(t, err)
	opt.NoLog, opt.NoSigs = true, true
	return launch(t, opt)
}

// TestEachLimitThatStopsPublishesIsRed fills streams without max_bytes. Near the limit its
// history says which limit that is, at the limit the broker is red and names it, and when there
// is room again it is ready.
func TestEachLimitThatStopsPublishesIsRed(t *testing.T) {
	t.Parallel()
	const jetStream = `jetstream { store_dir: "STORE" }` + "\n"
	for name, test := range map[string]struct {
		server  string
		stream  jetstream.StreamConfig
		size    int    // of a message
		limit   string // that is named
		unknown bool   // before it is reached
	}{
		"the storage of the account": {
			server: jetStream + `accounts { A { jetstream { max_file: 4M }, users: [ { user: a, password: a } ] } }` + "\nno_auth_user: a",
			size:   60_000, limit: "storage of the account",
		},
		"the messages of the stream": {server: jetStream, stream: jetstream.StreamConfig{MaxMsgs: 100}, size: 10, limit: "max_msgs of stream svc"},
		"the store of the server":    {server: `jetstream { store_dir: "STORE", max_file: 4M }`, size: 60_000, limit: "publishes are refused", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := configured(t, test.server).ClientURL()
			_, js := dial(t, url)
			config := test.stream
			config.Name, config.Subjects, config.Discard = "svc", []string{"svc.>", "timer.commands"}, jetstream.DiscardNew
			stream := makeStream(t, js, config)
			b := ready(t, nats.Options{URL: url})
			fullest := func() (l broker.Log) {
				t.Helper()
				h, _ := b.History()
				logs, err := h.Logs(t.Context(), role)
				if err != nil || len(logs) != 3 {
					t.Fatalf("logs %+v, %v", logs, err)
				}
				return logs[0]
			}
			var was broker.Log
			var err error
			for err == nil {
				was = fullest()
				err = try(b, topic, message.NewMessage(uuid.NewString(), bytes.Repeat([]byte("x"), test.size)))
			}
			if !errors.Is(err, broker.ErrUnavailable) {
				t.Fatalf("a publish at the limit: %v", err)
			}
			if used := float64(was.Bytes) / float64(max(was.MaxBytes, 1)); !test.unknown && (used < 0.9 || was.Limit != test.limit) {
				t.Errorf("before it was full: %.2f of %q, want most of %q", used, was.Limit, test.limit)
			}
			awaitNotReady(t, b, test.limit)
			must(t, stream.Purge(t.Context()))
			until(t, "a publish that is taken", func() bool { return try(b, topic, message.NewMessage(uuid.NewString(), nil)) == nil })
			awaitReady(t, b)
		})
	}
}

// TestAccountThatIsNotShownIsNoFailure: its permission is optional, and the log says once that it
// is missing.
func TestAccountThatIsNotShownIsNoFailure(t *testing.T) {
	t.Parallel()
	var log logbuf.Buffer
	opt := user(provisioned(t, 1<<20, `"$JS.API.INFO"`), "service")
	b := runLogging(t, opt, slog.New(slog.NewTextHandler(&log, nil)))
	awaitReady(t, b)
	h, _ := b.History()
	for range 2 {
		if logs, err := h.Logs(t.Context(), role); err != nil || len(logs) != 3 || logs[0].MaxBytes != 1<<20 || logs[0].Limit != "max_bytes of stream svc" {
			t.Errorf("logs %+v, %v", logs, err)
		}
	}
	if n := strings.Count(log.String(), "permit $JS.API.INFO"); n != 1 {
		t.Errorf("%d lines say what to permit:\n%s", n, &log)
	}
}

// TestServerThatTakesNoEventIsRefused since its largest message is smaller than an event.
func TestServerThatTakesNoEventIsRefused(t *testing.T) {
	t.Parallel()
	s := configured(t, "jetstream { store_dir: \"STORE\" }\nmax_payload: 4096")
	b := nats.New(nats.Options{URL: s.ClientURL()}, quiet)
	ended := running(t.Context(), b)
	select {
	case err := <-ended:
		fails(t, err, "max_payload")
	case <-time.After(time.Minute):
		t.Error("it goes on")
	}
}

// TestDeadLettersLeaveSpaceForOthers publishes dead letters until the stream takes none.
func TestDeadLettersLeaveSpaceForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e, MaxBytes: 1 << 20})
		letter := func(bytes int) (err error) {
			m := message.NewMessage(uuid.NewString(), make([]byte, bytes))
			m.Metadata.Set(envelope.HeaderType, envelope.TypeDeadLetter)
			return b.Publisher().Publish(t.Context(), broker.Message{Topic: "svc.acme.dlq", Message: m})[0]
		}
		until := func(bytes, want int) {
			t.Helper()
			n := 0
			for ; n < 2000; n++ {
				if err := letter(bytes); errors.Is(err, broker.ErrDeadLettersFull) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				if n%10 == 0 {
					time.Sleep(10 * time.Second) // the stream is looked up
				}
			}
			_, js := client(t, e)
			if got := 16 * streamOf(t, js).CachedInfo().State.Bytes >> 20; n == 0 || got < uint64(want)-1 || got > uint64(want) {
				t.Errorf("after %d of %d bytes the stream is %d/16 full, want %d/16", n, bytes, got, want)
			}
		}
		until(20_000, 13)
		until(0, 14)
		if err := try(b, commands, message.NewMessage("command", make([]byte, 60_000))); err != nil {
			t.Errorf("a command: %v", err)
		}
		if err := b.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
