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

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/outbox"
)

var errTopic = errors.New("not enough replicas")

// once fails the test if a message was not published exactly once.
func (p *model) once(t *testing.T, rows int64) {
	t.Helper()
	count := p.count()
	missing, twice := 0, 0
	for i := int64(1); i <= rows; i++ {
		switch n := count[fmt.Sprint("id-", i)]; {
		case n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	if missing+twice > 0 {
		t.Errorf("of %d events %d were not published and %d more than once", rows, missing, twice)
	}
}

// TestPartitionThatFailsDelaysAndRepeatsNoOther has 2,000 events for twelve
// partitions, of which one fails for two minutes.
func TestPartitionThatFailsDelaysAndRepeatsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const events, partitions, outage = 2000, 12, 2 * time.Minute
		l, p, began := new(table), new(model), time.Now()
		p.publish = failIf(broker.PartitionError{Partition: "7", Err: errTopic}, func(m broker.Message) bool { return m.Topic == "7" && time.Since(began) < outage })
		for i := range events {
			l.append(fmt.Sprint(i % partitions))
		}
		forward(t, l, p, outbox.Options{})
		wait(time.Second)
		if left := l.left(); len(left) != (events+4)/partitions {
			t.Errorf("%d rows are left after a second, want those of the partition", len(left))
		}
		for i := int64(1); i <= events; i++ {
			if at := p.at(fmt.Sprint("id-", i)); i%partitions != 8 && at.Sub(began) > 100*time.Millisecond {
				t.Fatalf("id-%d went out after %v, want at once", i, at.Sub(began))
			}
		}
		wait(outage + 5*time.Second)
		if left := l.left(); len(left) > 0 {
			t.Errorf("%d rows are left seconds after the partition is back", len(left))
		}
		p.once(t, events)
	})
}

// TestTopicThatFailsIsServedWhenItIsBack returns after different times.
func TestTopicThatFailsIsServedWhenItIsBack(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	for _, outage := range []time.Duration{time.Millisecond, time.Second, 7 * time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			l, p, began := new(table), new(model), time.Now()
			p.publish = failIf(errTopic, func(m broker.Message) bool { return m.Topic == "bad" && time.Since(began) < outage })
			l.append("bad", "good")
			forward(t, l, p, outbox.Options{MaxAttempts: 1})
			synctest.Wait()
			if !p.at("id-2").Equal(began) {
				t.Error("the good topic waited for the bad one")
			}
			wait(2*outage + 10*time.Second)
			late, limit := p.at("id-1").Sub(began)-outage, min(2*outage, 6500*time.Millisecond)+100*time.Millisecond
			if p.at("id-1").IsZero() || late > limit {
				t.Errorf("away for %v: served %v after its return, want at most %v", outage, late, limit)
			}
			if len(l.parked) > 0 {
				t.Errorf("parked %v, which the broker never refused", l.parked)
			}
		})
	}
}

// TestRetriesOfADeadTopicAreBounded counts the publishes for a topic that does not return.
func TestRetriesOfADeadTopicAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		var tries atomic.Int64
		p.publish = func(m broker.Message) error {
			if m.Topic == "dead" {
				tries.Add(1)
				return errTopic
			}
			return nil
		}
		const dead = 5_000
		l.append(slices.Repeat([]string{"dead"}, dead)...)
		f := forward(t, l, p, outbox.Options{})
		time.Sleep(time.Minute)
		if got := tries.Load() - dead; got > 1000 { // a few rows every five seconds
			t.Errorf("%d retries in a minute", got)
		}
		l.add(f, "good")
		synctest.Wait()
		if at := p.at(fmt.Sprint("id-", dead+1)); !at.Equal(time.Now()) {
			t.Error("the good topic waits")
		}
	})
}

// TestProbeThatHangsDelaysNoOther has a topic that answers no retry, and another one that fails
// for three seconds.
func TestProbeThatHangsDelaysNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		began := time.Now()
		p.publish = failIf(errTopic, func(m broker.Message) bool {
			return m.Topic == "mute" && time.Since(began) < time.Second || m.Topic == "brief" && time.Since(began) < 3*time.Second
		})
		p.takes = func(m broker.Message) time.Duration {
			if m.Topic == "mute" && time.Since(began) >= time.Second {
				return time.Hour
			}
			return 0
		}
		l.append(slices.Repeat([]string{"brief", "mute"}, 100)...)
		forward(t, l, p, outbox.Options{})
		time.Sleep(9 * time.Second) // less than a publish may take
		synctest.Wait()
		if left := l.left(); len(left) != 100 {
			t.Errorf("%d rows are left, want those of the topic that does not answer", len(left))
		}
		time.Sleep(time.Minute)
		p.mu.Lock()
		defer p.mu.Unlock()
		if n := len(p.ids["brief"]); n != 100 {
			t.Errorf("published %d events, want 100", n)
		}
	})
}

// TestTopicThatIsBackDoesNotWaitForOnesThatAreNot has many rows of topics that
// fail, and few or many of one that recovers.
func TestTopicThatIsBackDoesNotWaitForOnesThatAreNot(t *testing.T) {
	longtest.NotShort(t)
	t.Parallel()
	for name, tt := range map[string]struct {
		dead  func(i int) string
		rows  int // of the topic that recovers
		limit time.Duration
	}{
		"few rows behind one dead topic": {func(int) string { return "dead" }, 10, 6 * time.Second},
		"many rows and one dead topic":   {func(int) string { return "dead" }, 4_000, 8 * time.Second},
		"many rows and many dead topics": {func(i int) string { return fmt.Sprint("dead-", i%200) }, 2_000, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *table, p *model) {
				began := time.Now()
				p.publish = failIf(errTopic, func(m broker.Message) bool {
					return strings.HasPrefix(m.Topic, "dead") || time.Since(began) < 10*time.Minute
				})
				p.takes = func(broker.Message) time.Duration { return 5 * time.Millisecond }
				dead, rows := 4_000, tt.rows
				if testing.Short() { // with the race detector
					dead, rows = dead/4, max(rows/4, 10)
				}
				for i := range max(dead, rows) {
					if i < dead {
						l.append(tt.dead(i))
					}
					if i < rows {
						l.append("well")
					}
				}
				forward(t, l, p, outbox.Options{})
				time.Sleep(10*time.Minute + tt.limit)
				if got := len(p.count()); got != rows {
					t.Errorf("%d events of %d went out %v after the topic was back", got, rows, tt.limit)
				}
			})
		})
	}
}

// TestTopicThatDoesNotAnswerHoldsUpNoOther has results that are never known, for minutes, with
// new rows for that topic and for others all the time.
func TestTopicThatDoesNotAnswerHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		batch, mute, good int // rows of each topic, each time
		every             time.Duration
		first, later      time.Duration // how late events of the other topic may be, in the first 15 s and later
	}{
		"few rows":                        {1000, 10, 10, 300 * time.Millisecond, 200 * time.Millisecond, 200 * time.Millisecond},
		"more rows than may be in flight": {100, 10, 10, 300 * time.Millisecond, 10 * time.Second, time.Second},
		"2,000 rows a second":             {1000, 200, 1, 100 * time.Millisecond, 10 * time.Second, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				outage := 3 * time.Minute
				if testing.Short() { // with the race detector
					outage = 45 * time.Second
				}
				l, p, began := new(table), new(model), time.Now()
				p.takes = func(m broker.Message) time.Duration {
					if m.Topic == "mute" && time.Since(began) < outage {
						return time.Hour
					}
					return 0
				}
				f := forward(t, l, p, outbox.Options{Batch: tt.batch})
				appended := make(map[string]time.Time)
				for time.Since(began) < outage {
					l.append(slices.Repeat([]string{"mute"}, tt.mute)...)
					for range tt.good {
						l.append("good")
						appended[fmt.Sprint("id-", l.seq)] = time.Now()
					}
					f.Appended(tt.mute + tt.good)
					time.Sleep(tt.every)
				}
				wait(30 * time.Second)
				for id, at := range appended {
					late, limit := p.at(id).Sub(at), tt.first
					if at.Sub(began) > 15*time.Second {
						limit = tt.later
					}
					if late < 0 || late > limit {
						t.Fatalf("an event of the other topic was %v late after %v", late, at.Sub(began))
					}
				}
				if left := l.left(); len(left) > 0 {
					t.Errorf("%d rows are left half a minute after the topic answers", len(left))
				}
				p.once(t, l.seq)
			})
		})
	}
}
