package outbox_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
)

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
