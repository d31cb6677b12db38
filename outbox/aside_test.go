package outbox_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
)

// A topic that fails once while others work keeps its order.
func TestTopicThatFailsOnceKeepsItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := new(ledger), new(post)
		var failed atomic.Bool
		p.publish = func(topic string, _ *message.Message) error {
			if topic == "bad" && failed.CompareAndSwap(false, true) {
				return errors.New("no answer")
			}
			return nil
		}
		for range 20 {
			l.append("good", "bad")
		}
		forward(t, l, p, outbox.ForwarderOptions{Batch: 4})
		time.Sleep(time.Minute)
		synctest.Wait()
		var want []string
		for i := 2; i <= 40; i += 2 {
			want = append(want, fmt.Sprint("id-", i))
		}
		if !slices.Equal(p.ids["bad"], want) {
			t.Errorf("published %v, want them in order", p.ids["bad"])
		}
	})
}

// The try of a topic may end in the middle of a pass. It does not go on there:
// rows were left behind before.
func TestTryThatEndsInTheMiddleOfAPassKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p, began := new(ledger), new(post), time.Now()
		p.publish = func(_ string, m *message.Message) error {
			time.Sleep(3 * time.Millisecond)
			switch {
			case m.UUID == "id-2":
				return fmt.Errorf("%w: too large", broker.ErrRefused)
			case m.UUID == "id-4" && time.Since(began) < 300*time.Millisecond:
				return errors.New("no answer")
			}
			return nil
		}
		var want []string
		for i := range 200 {
			l.append("good", "bad")
			want = append(want, fmt.Sprint("id-", 2*i+2))
		}
		forward(t, l, p, outbox.ForwarderOptions{Batch: 4})
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(p.ids["bad"], want[1:]) {
			t.Errorf("published %v, want all but the first in order", p.ids["bad"])
		}
	})
}

// A refused row lets those behind it pass, a failure does not.
func TestFailureBehindARefusalKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := new(ledger), new(post)
		failures := 3
		p.publish = func(_ string, m *message.Message) error {
			if m.UUID == "id-1" {
				return fmt.Errorf("%w: too large", broker.ErrRefused)
			}
			if m.UUID == "id-2" && failures > 0 {
				failures--
				return errors.New("no answer")
			}
			return nil
		}
		l.append("a", "a", "a")
		forward(t, l, p, outbox.ForwarderOptions{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(p.ids["a"], []string{"id-2", "id-3"}) || l.parked[1] == "" {
			t.Errorf("published %v and parked %v, want the last two in order and the first", p.ids["a"], l.parked)
		}
	})
}

// TestSlowTopicDelaysOthersOnce has a topic answer with an error after a while,
// for minutes, with new rows for it and for others all the time.
func TestSlowTopicDelaysOthersOnce(t *testing.T) {
	const answer, outage = 15 * time.Second, 3 * time.Minute
	for name, p := range map[string]interface {
		message.Publisher
		record() *post
	}{"each topic by itself": new(post), "all topics in one go": new(widePost)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, began := new(ledger), time.Now()
				var tries atomic.Int64
				p.record().publish = func(topic string, _ *message.Message) error {
					if topic == "mute" && time.Since(began) < outage {
						tries.Add(1)
						time.Sleep(answer)
						return errors.New("no confirm")
					}
					return nil
				}
				f := forward(t, l, p, outbox.ForwarderOptions{Batch: 100})
				var worst, later time.Duration
				appended := make(map[string]time.Time)
				var mute []string
				for time.Since(began) < outage {
					for range 10 {
						l.append("mute", "good")
						mute = append(mute, fmt.Sprint("id-", l.seq-1))
						appended[fmt.Sprint("id-", l.seq)] = time.Now()
					}
					f.Wake()
					time.Sleep(time.Second)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				for id, at := range appended {
					late := p.record().at(id).Sub(at)
					worst = max(worst, late)
					if at.Sub(began) > 2*answer {
						later = max(later, late)
					}
				}
				if worst > 2*answer || later > 100*time.Millisecond {
					t.Errorf("the good topic was up to %v late, and %v once the other was known; want at most %v, and 100ms", worst, later, 2*answer)
				}
				if !slices.Equal(p.record().ids["mute"], mute) || len(l.left()) > 0 {
					t.Errorf("the mute topic got %d of %d rows 10s after it was well, or not in order; %d left", len(p.record().ids["mute"]), len(mute), len(l.left()))
				}
				if n := tries.Load(); n > 50 {
					t.Errorf("tried %d times in %v", n, outage)
				}
			})
		})
	}
}

// A topic that is well again is served while a flood of others goes on, however
// many of its rows were left behind.
func TestFloodDoesNotHoldUpATopicThatIsWellAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p, began := new(ledger), new(post), time.Now()
		var over atomic.Bool
		p.publish = func(topic string, _ *message.Message) error {
			switch {
			case topic == "small" && time.Since(began) < 10*time.Second:
				return errors.New("no answer")
			case topic == "great" && !over.Load():
				time.Sleep(time.Millisecond)
				l.append("great")
			}
			return nil
		}
		for range 20 {
			l.append("small", "great")
		}
		forward(t, l, p, outbox.ForwarderOptions{Batch: 4})
		time.Sleep(30 * time.Second)
		over.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if last := p.at("id-39"); last.IsZero() || last.Sub(began) > 20*time.Second {
			t.Errorf("its last row went out after %v, want within 10s of being well", last.Sub(began))
		}
	})
}

// Topics that fail, more than are tried at the same time, delay no other and are
// all served in the end.
func TestManyTopicsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p, began := new(ledger), new(post), time.Now()
		p.publish = func(topic string, _ *message.Message) error {
			if topic != "good" && time.Since(began) < time.Minute {
				time.Sleep(time.Second)
				return errors.New("no confirm")
			}
			return nil
		}
		for range 3 {
			for i := range 200 {
				l.append(fmt.Sprint("bad-", i), "good")
			}
		}
		f := forward(t, l, p, outbox.ForwarderOptions{})
		time.Sleep(30 * time.Second)
		l.append("good")
		f.Wake()
		synctest.Wait()
		if !p.at("id-1201").Equal(time.Now()) {
			t.Error("the good topic waits")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if left := l.left(); len(left) > 0 {
			t.Errorf("%d rows are left half a minute after all topics were well", len(left))
		}
		for topic, ids := range p.ids {
			if topic != "good" && !(len(ids) == 3 && slices.IsSortedFunc(ids, bySeq)) {
				t.Fatalf("%s got %v", topic, ids)
			}
		}
	})
}

// bySeq orders ids of a ledger.
func bySeq(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	if a < b {
		return -1
	}
	return 1
}

// A stop waits for what is being tried apart.
func TestStopWaitsForWhatIsTriedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := new(ledger), new(post)
		var tries atomic.Int64
		p.publish = func(topic string, _ *message.Message) error {
			if topic != "bad" {
				return nil
			}
			if tries.Add(1) == 1 {
				return errors.New("no answer")
			}
			time.Sleep(time.Hour)
			return nil
		}
		l.append("good", "bad")
		_, stop := forwardUntil(t, l, p, outbox.ForwarderOptions{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if tries.Load() != 2 {
			t.Fatalf("%d tries, want a second one that takes long", tries.Load())
		}
		stop()
		if len(p.ids["bad"]) != 1 || len(l.left()) != 0 {
			t.Errorf("published %v and left %v: the next start would publish it again", p.ids["bad"], l.left())
		}
	})
}
