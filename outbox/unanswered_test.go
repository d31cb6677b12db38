package outbox_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
)

// TestTopicThatDoesNotAnswerDelaysNoOther has 2,000 rows a second for a topic that
// does not answer for two minutes, and a row now and then for one that does.
func TestTopicThatDoesNotAnswerDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outage := 2 * time.Minute
		if testing.Short() { // with the race detector
			outage = 45 * time.Second
		}
		l, p, began := new(table), new(model), time.Now()
		p.takes = func(m broker.Message) time.Duration {
			if m.Topic == "hung" && time.Since(began) < outage {
				return time.Hour
			}
			return 0
		}
		f := forward(t, l, p, outbox.Options{})
		appended := make(map[int64]time.Time) // of the good rows
		var seq int64
		for time.Since(began) < outage {
			for range 200 {
				l.append("hung")
			}
			l.append("good")
			seq += 201
			appended[seq] = time.Now()
			f.Appended(201)
			time.Sleep(100 * time.Millisecond)
		}
		for seq, at := range appended {
			// The first publishes take their whole timeout.
			if late := p.at(id(seq)).Sub(at); at.Sub(began) > 15*time.Second && (late < 0 || late > 200*time.Millisecond) {
				t.Fatalf("id-%d, after %v, went out %v late", seq, at.Sub(began), late)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if left := l.left(); len(left) > 0 {
			t.Errorf("%d rows are left a minute after the topic is back", len(left))
		}
		p.once(t, seq)
	})
}
