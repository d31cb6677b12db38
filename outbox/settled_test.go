package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
)

// TestParkedEventsFloodNoLog has a broker that refuses a thousand events of a tenant.
func TestParkedEventsFloodNoLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, p := new(table), &model{publish: func(broker.Message) error { return broker.ErrRefused }}
		f, log, stop := logged(t, l, p, outbox.Options{})
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
		f, log, stop := logged(t, l, new(model), outbox.Options{
			Handlers: []outbox.Handler{{Handle: func(_ context.Context, row outbox.Row) (bool, error) {
				if h.note(row) < 3 {
					return false, fmt.Errorf("%w: too many connections", outbox.ErrNotBegun)
				}
				return false, nil
			}}},
		})
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

// TestHooksSayWhatBecameOfEachEvent, before its row is gone, and when. The broker answers after 40
// seconds: it acks one event, another one at the third attempt, and refuses one.
func TestHooksSayWhatBecameOfEachEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, began, failures := new(table), time.Now(), 0
		l.append("a", "b", "c")
		slow := publishFunc(func(messages ...broker.Message) []error {
			results := make([]error, len(messages))
			for i, m := range messages {
				switch {
				case m.UUID == "id-2" && failures < 2:
					failures++
					results[i] = errors.New("no leader")
				case m.UUID == "id-3":
					results[i] = broker.ErrRefused
				}
			}
			time.Sleep(40 * time.Second)
			return results
		})
		type settled struct {
			Topic    string
			Attempts int
			Refused  bool
		}
		var mu sync.Mutex
		got, acked := make(map[string]settled), make(map[string]time.Duration)
		forward(t, l, slow, outbox.Options{
			Published: func(at time.Time, events []*message.Message) {
				mu.Lock()
				defer mu.Unlock()
				for _, e := range events {
					acked[e.UUID] += at.Sub(began)
				}
				if n := len(l.left()); n < len(events) {
					t.Errorf("%d rows are left before the hook returned, of %d", n, len(events))
				}
			},
			Settled: func(_ time.Time, topic string, row outbox.Row, err error) {
				mu.Lock()
				defer mu.Unlock()
				if _, twice := got[row.Message.UUID]; twice {
					t.Errorf("%s twice", row.Message.UUID)
				}
				got[row.Message.UUID] = settled{topic, row.Attempts, errors.Is(err, broker.ErrRefused)}
			},
		})
		l.emptied()
		want := map[string]settled{"id-1": {Topic: "a"}, "id-2": {Topic: "b", Attempts: 2}, "id-3": {Topic: "c", Attempts: 4, Refused: true}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("settled (-want +got):\n%s", diff)
		}
		if acked["id-1"] != 40*time.Second || acked["id-2"] < 2*time.Minute || len(acked) != 2 {
			t.Errorf("acked after %v, want 40s and a later one for id-2", acked)
		}
	})
}
