package outbox_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/outbox"
)

// Topics that fail delay no other, not even if all of the oldest rows are theirs,
// however many.
func TestTopicsThatFailAtTheHeadDelayNoOther(t *testing.T) {
	for name, bad := range map[string]func(i int) string{
		"one topic":   func(int) string { return "bad" },
		"many topics": func(i int) string { return fmt.Sprint("bad-", i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p, began := new(ledger), new(post), time.Now()
				var well atomic.Bool
				p.publish = func(topic string, _ *message.Message) error {
					if strings.HasPrefix(topic, "bad") && !well.Load() {
						return errors.New("no answer")
					}
					return nil
				}
				f := forward(t, l, p, outbox.ForwarderOptions{Batch: 100})
				for i := range 1000 {
					l.append(bad(i))
				}
				l.append("good")
				f.Wake()
				time.Sleep(time.Minute)
				synctest.Wait()
				if at := p.at("id-1001"); at.IsZero() {
					t.Error("the good topic is held up for ever")
				} else if late := at.Sub(began); late > 30*time.Second {
					t.Errorf("the good topic is %v late", late)
				}
				well.Store(true)
				time.Sleep(time.Minute)
				synctest.Wait()
				if left := l.left(); len(left) > 0 {
					t.Errorf("%d rows are left though all topics are well", len(left))
				}
			})
		})
	}
}

// Whatever was tried while the broker was away, each topic gets its rows in order.
func TestOrderOfATopicSurvivesAnOutage(t *testing.T) {
	for _, down := range []time.Duration{time.Millisecond, time.Second, 7 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			l, p, began := new(ledger), new(post), time.Now()
			p.publish = func(string, *message.Message) error {
				if time.Since(began) < down {
					return errors.New("no answer")
				}
				return nil
			}
			want := make(map[string][]string)
			for i := range 3000 { // topics begin one after the other, and go on
				topic := fmt.Sprint("topic-", i%(1+i/200))
				l.append(topic)
				want[topic] = append(want[topic], fmt.Sprint("id-", i+1))
			}
			forward(t, l, p, outbox.ForwarderOptions{Batch: 100})
			time.Sleep(down + time.Minute)
			synctest.Wait()
			for topic, ids := range want {
				if !slices.Equal(ids, p.ids[topic]) {
					t.Errorf("down for %v: %s got %d of %d, or not in order", down, topic, len(p.ids[topic]), len(ids))
				}
			}
		})
	}
}
