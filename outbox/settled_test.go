package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// TestSettledSaysWhatBecameOfEachEvent has a broker that acks one, another at the
// third attempt, and refuses one.
func TestSettledSaysWhatBecameOfEachEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		failures := 0
		p.publish = func(m broker.Message) error {
			switch {
			case m.UUID == "id-2" && failures < 2:
				failures++
				return errors.New("no leader")
			case m.UUID == "id-3":
				return broker.ErrRefused
			}
			return nil
		}
		type settled struct {
			Topic    string
			Attempts int
			Refused  bool
		}
		var mu sync.Mutex
		got := make(map[string]settled)
		f := forward(t, l, p, outbox.Options{Settled: func(_ time.Time, topic string, row outbox.Row, err error) {
			mu.Lock()
			defer mu.Unlock()
			if _, twice := got[row.Message.UUID]; twice {
				t.Errorf("%s twice", row.Message.UUID)
			}
			got[row.Message.UUID] = settled{topic, row.Attempts, errors.Is(err, broker.ErrRefused)}
		}})
		l.add(f, "a", "b", "c")
		l.emptied()
		mu.Lock()
		defer mu.Unlock()
		want := map[string]settled{"id-1": {Topic: "a"}, "id-2": {Topic: "b", Attempts: 2}, "id-3": {Topic: "c", Attempts: 4, Refused: true}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("settled (-want +got):\n%s", diff)
		}
	})
}

// TestParkedEventsFloodNoLog has a broker that refuses a thousand events of a tenant.
func TestParkedEventsFloodNoLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, p := new(table), &model{publish: func(broker.Message) error { return broker.ErrRefused }}
		var log logbuf.Buffer
		f := outbox.New(outbox.Single(l), p, payload, timer.ClockFunc(time.Now), slog.New(slog.NewTextHandler(&log, nil)), outbox.Options{})
		stop := start(t, f)
		l.add(f, strings.Fields(strings.Repeat("refused ", 1000))...)
		l.emptied()
		stop()
		lines, counted := 0, 0
		for line := range strings.Lines(log.String()) {
			_, count, parked := strings.Cut(line, "events were parked, see the table timer_outbox_parked\" refused_by=\"the broker\" tenant_id=refused count=")
			if !parked {
				continue
			}
			n := 0
			if _, err := fmt.Sscan(count, &n); err != nil {
				t.Fatal(err)
			}
			lines, counted = lines+1, n
		}
		if lines != 2 || counted != 1000 {
			t.Errorf("%d lines, the last counts %d, want 2 and 1000:\n%s", lines, counted, log.String())
		}
	})
}

// TestAHandlerThatCannotBeginNamesItsEvent has the transaction of a handler fail to begin.
func TestAHandlerThatCannotBeginNamesItsEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, _ *model) {
		h := newHandled()
		var log logbuf.Buffer
		f := outbox.New(outbox.Single(l), new(model), payload, timer.ClockFunc(time.Now), slog.New(slog.NewTextHandler(&log, nil)), outbox.Options{
			Handlers: []outbox.Handler{{Handle: func(_ context.Context, row outbox.Row) (bool, error) {
				if h.note(row) < 3 {
					return false, fmt.Errorf("%w: too many connections", outbox.ErrNotBegun)
				}
				return false, nil
			}}},
		})
		stop := start(t, f)
		l.add(f, "acme/order-1")
		l.emptied()
		stop()
		want := `msg="events could not be handled, will retry each" prefix="" count=1 tenant_id=acme service_call_id=order-1 correlation_id="" event_id=id-1 error=`
		if got := log.String(); strings.Count(got, want) != 1 {
			t.Errorf("want one line with %s, got\n%s", want, got)
		}
	})
}

// A publishFunc takes a batch.
type publishFunc func(...broker.Message) []error

func (p publishFunc) Publish(_ context.Context, messages ...broker.Message) []error {
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
		slow := publishFunc(func(messages ...broker.Message) []error {
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
