package outbox_test

import (
	"testing"
	"testing/synctest"
	"time"

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
