package outbox_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
)

// TestSettledSaysWhatBecameOfEachEvent has a broker that acks one, another at the
// third attempt, and refuses one.
func TestSettledSaysWhatBecameOfEachEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, p, failures := new(table), new(model), 0
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
		l.append("a", "b", "c")
		f.Appended(3)
		l.emptied()
		mu.Lock()
		defer mu.Unlock()
		want := map[string]settled{"id-1": {Topic: "a"}, "id-2": {Topic: "b", Attempts: 2}, "id-3": {Topic: "c", Attempts: 4, Refused: true}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("settled (-want +got):\n%s", diff)
		}
	})
}
