package outbox_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/outbox"
)

func TestWhatIsBeingDeletedIsNotPublishedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := new(ledger), new(post)
		l.fail = func(op string) error {
			if op == "delete" {
				time.Sleep(time.Minute) // a database that is slow, and well
			}
			return nil
		}
		f := forward(t, l, p, outbox.ForwarderOptions{Interval: time.Second})
		l.append("a", "a")
		f.Wake()
		time.Sleep(10 * time.Second) // several intervals into the delete
		l.append("a")
		f.Wake()
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"id-1", "id-2", "id-3"}, p.ids["a"]); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		if left := l.left(); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	})
}

// TestNoFloodHoldsUpWhatWasLeftBehind has batches that are always full: they do
// not keep an event waiting that failed once.
func TestNoFloodHoldsUpWhatWasLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p, began := new(ledger), new(post), time.Now()
		var failed, over atomic.Bool
		p.publish = func(topic string, _ *message.Message) error {
			switch {
			case topic == "small" && failed.CompareAndSwap(false, true):
				return errors.New("no answer")
			case topic == "great" && !over.Load():
				time.Sleep(time.Millisecond)
				l.append("great")
			}
			return nil
		}
		l.append("small", "great", "great", "great", "great", "great", "great", "great")
		forward(t, l, p, outbox.ForwarderOptions{Batch: 4})
		time.Sleep(20 * time.Second)
		over.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if at := p.at("id-1"); at.IsZero() || at.Sub(began) > time.Second {
			t.Errorf("sent again after %v", at.Sub(began))
		}
	})
}
