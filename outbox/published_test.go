package outbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A publisher takes a batch.
type publisher func(...broker.Message) []error

func (p publisher) Publish(_ context.Context, messages ...broker.Message) []error {
	return p(messages...)
}

// TestPublishedSaysWhenTheBrokerAcked has a broker that acks after 40 seconds: all
// but one event, and that one at the next attempt.
func TestPublishedSaysWhenTheBrokerAcked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, began := new(table), time.Now()
		l.append("a", "b", "c")
		failed := false
		slow := publisher(func(messages ...broker.Message) []error {
			results := make([]error, len(messages))
			for i, m := range messages {
				if m.Topic == "b" && !failed {
					failed, results[i] = true, broker.ErrRefused
				}
			}
			time.Sleep(40 * time.Second)
			return results
		})
		var mu sync.Mutex
		acked := make(map[string]time.Duration)
		forward(t, l, slow, outbox.Options{Published: func(at time.Time, events []*message.Message) {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range events {
				if _, twice := acked[e.UUID]; twice {
					t.Errorf("%s twice", e.UUID)
				}
				acked[e.UUID] = at.Sub(began)
			}
			if n := len(l.left()); n < len(events) {
				t.Errorf("%d rows are left before the hook returned, of %d", n, len(events))
			}
		}})
		l.emptied()
		if acked["id-1"] != 40*time.Second || acked["id-3"] != 40*time.Second || acked["id-2"] < 80*time.Second || len(acked) != 3 {
			t.Errorf("acked after %v, want 40s and a later one for id-2", acked)
		}
	})
}

func TestLogsThatTheBrokerIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, began := new(table), time.Now()
		away := publisher(func(messages ...broker.Message) []error {
			if time.Since(began) < 40*time.Second {
				return slices.Repeat([]error{broker.ErrUnavailable}, len(messages))
			}
			return make([]error, len(messages))
		})
		var logs bytes.Buffer
		f := outbox.New(outbox.Single(l), away, payload, timer.ClockFunc(time.Now), slog.New(slog.NewTextHandler(&logs, nil)), outbox.Options{})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = f.Run(ctx) }) // nil, by contract
		for range 3 {
			l.append("a")
			f.Appended(1)
			if err := f.Drain(ctx); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		running.Wait()
		lines := strings.Split(strings.TrimSpace(logs.String()), "\n")
		last := lines[len(lines)-1]
		if n := strings.Count(logs.String(), "available again"); n != 1 || !strings.Contains(last, "available again") || !strings.Contains(last, "unavailable_for=40") {
			t.Errorf("want one line that the broker is back after 40 s, the last one:\n%s", logs.String())
		}
	})
}
