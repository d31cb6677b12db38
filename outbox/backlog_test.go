package outbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
)

// A lock is a publisher that lets one batch through each time it is opened.
type lock struct{ batches chan int }

func newLock() *lock { return &lock{make(chan int)} }

func (l *lock) Publish(_ context.Context, messages ...broker.Message) []error {
	l.batches <- len(messages)
	return make([]error, len(messages))
}

// TestWaitingIsWhatIsNotRead has a broker that takes its time.
func TestWaitingIsWhatIsNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, p := new(table), newLock()
		f := forward(t, l, p, outbox.Options{Batch: 10})
		synctest.Wait()
		check := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := f.Waiting(); got != want {
				t.Errorf("%s: %d wait, want %d", when, got, want)
			}
		}
		check("at first", 0)
		for range 4 {
			l.add(f, slices.Repeat([]string{"a"}, 10)...)
			synctest.Wait()
		}
		check("while the first batch is published", 30)
		<-p.batches
		check("while the second is", 20)
		<-p.batches
		<-p.batches
		check("while the last is", 0)
		l.add(f, "a")
		check("when one more came", 1)
		<-p.batches
		check("while that is published", 0)
		<-p.batches
		if err := f.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("in the end", 0)
	})
}

// TestRowsOfAnEarlierLifeWait has more rows in the outbox than a batch when the
// forwarder starts: it does not know how many.
func TestRowsOfAnEarlierLifeWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, p := new(table), newLock()
		l.append(slices.Repeat([]string{"a"}, 25)...)
		f := forward(t, l, p, outbox.Options{Batch: 10})
		for _, want := range []bool{true, true, false} {
			synctest.Wait()
			if got := f.Waiting() > 1000; got != want {
				t.Errorf("very many wait: %v, want %v", got, want)
			}
			<-p.batches
		}
		l.add(f, "a")
		<-p.batches
		synctest.Wait()
		if got := f.Waiting(); got != 0 {
			t.Errorf("%d wait in the end", got)
		}
	})
}

// TestRowsThatVanishDoNotWait deletes rows before they are read.
func TestRowsThatVanishDoNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, _ *model) {
		f := forward(t, l, new(model), outbox.Options{})
		synctest.Wait()
		f.Appended(5000)
		synctest.Wait()
		if got := f.Waiting(); got != 0 {
			t.Errorf("%d wait, though there are none", got)
		}
	})
}

// TestEverythingWaitsWithoutALease asks a relay for the number of events in its shard.
func TestEverythingWaitsWithoutALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(1)
		b.fail = errors.New("the database is down")
		i := newInstance(t, b)
		time.Sleep(10 * time.Second)
		if got := i.Waiting(); got < 1_000_000 {
			t.Errorf("%d wait, though no shard is owned", got)
		}
		b.mu.Lock()
		b.fail = nil
		b.mu.Unlock()
		time.Sleep(10 * time.Second)
		b.shards[0].append("a")
		i.Appended(1)
		synctest.Wait()
		if got := i.Waiting(); got != 0 {
			t.Errorf("%d wait, want none", got)
		}
	})
}
