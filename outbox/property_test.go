package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A chaos fails as its numbers say.
type chaos struct {
	Seed                  uint64
	Rows, Topics          int
	Publishes, Changes    int // of a hundred that fail
	Restarts, Interrupted int // forwarders that are replaced, and how many of them fail to make their last changes
}

// TestWhateverFails publishes to a broker whose results are any mix, from a table
// that fails, with forwarders that are stopped and started again.
func TestWhateverFails(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := chaos{
			Seed: rapid.Uint64().Draw(rt, "seed"), Rows: rapid.IntRange(1, 200).Draw(rt, "rows"), Topics: rapid.IntRange(1, 6).Draw(rt, "topics"),
			Publishes: rapid.IntRange(0, 60).Draw(rt, "publishes that fail"), Changes: rapid.IntRange(0, 50).Draw(rt, "changes that fail"),
			Restarts: rapid.IntRange(0, 5).Draw(rt, "restarts"), Interrupted: rapid.IntRange(0, 5).Draw(rt, "interrupted"),
		}
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = c.run(t) })
		for _, w := range wrong {
			rt.Error(w)
		}
	})
}

func (c chaos) run(t *testing.T) (wrong []string) {
	l, p := new(table), new(model)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	random := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	percent := func(n int) bool { return random(100) < n }
	var ends, calm atomic.Bool // changes of the table fail; nothing fails
	l.fail = func(op string) error {
		if !calm.Load() && (ends.Load() && op != "head" || percent(c.Changes)) {
			return errors.New("disk full")
		}
		return nil
	}
	p.publish = func(m broker.Message) (err error) {
		if calm.Load() || !percent(c.Publishes) {
			return nil
		}
		return []error{errTopic, fmt.Errorf("%w: too large", broker.ErrRefused), fmt.Errorf("%w: gone", broker.ErrUnavailable), broker.PartitionError{Partition: "1", Err: errTopic}}[random(4)]
	}
	p.takes = func(broker.Message) time.Duration {
		if !calm.Load() && random(500) == 0 {
			return 15 * time.Second
		}
		return 0
	}
	appended := 0
	for life := range c.Restarts + 1 {
		f := outbox.New(outbox.Outbox{Table: l}, p, payload, timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler), outbox.Options{Batch: 50})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := f.Run(ctx); err != nil {
				wrong = append(wrong, err.Error())
			}
		})
		for ; appended < c.Rows*(life+1)/(c.Restarts+1); appended++ {
			l.add(f, fmt.Sprint("topic-", random(c.Topics)))
			time.Sleep(time.Duration(random(20)) * time.Millisecond)
		}
		if life == c.Restarts {
			calm.Store(true)
			l.emptied()
		}
		ends.Store(life < c.Interrupted)
		stop()
		running.Wait()
		ends.Store(false)
	}
	count := p.count()
	for i := int64(1); i <= l.seq; i++ {
		id := fmt.Sprint("id-", i)
		switch n := count[id]; {
		case n == 0 && l.parked[i] == "":
			wrong = append(wrong, id+" is lost")
		case n > 1 && c.Restarts == 0:
			wrong = append(wrong, fmt.Sprintf("%s was published %d times, and no forwarder stopped", id, n))
		}
	}
	for topic, ids := range p.ids {
		var last int64
		published := make(map[string]bool)
		for _, id := range ids {
			var seq int64
			if _, err := fmt.Sscanf(id, "id-%d", &seq); err != nil {
				t.Fatal(err)
			}
			if published[id] || p.failed[id] || c.Restarts > 0 {
				continue
			}
			published[id] = true
			if seq < last {
				wrong = append(wrong, fmt.Sprintf("%s: %s came behind id-%d and had not failed", topic, id, last))
			}
			last = seq
		}
	}
	return wrong
}
