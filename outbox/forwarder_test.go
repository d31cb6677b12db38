package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// TestReadsOnceAnEvent counts reads of the outbox: one at the start, then one for
// each event that comes alone.
func TestReadsOnceAnEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		f := forward(t, l, p, outbox.Options{Interval: time.Hour})
		synctest.Wait()
		for range 10 {
			l.add(f, "a")
			synctest.Wait()
		}
		wait(time.Second)
		if reads := l.calls("head"); reads != 1+10 || len(l.left()) != 0 {
			t.Errorf("%d reads for 10 events, want 11; left %v", reads, l.left())
		}
	})
}

// TestAnIdleOutboxIsReadOnceAnInterval counts reads of an outbox without rows: one finds rows at its
// end as well as rows that committed late.
func TestAnIdleOutboxIsReadOnceAnInterval(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		forward(t, l, p, outbox.Options{Interval: time.Second})
		wait(100*time.Second + time.Second/2)
		if reads, most := l.calls("head"), 1+101; reads > most {
			t.Errorf("%d reads in 100 intervals, want at most %d", reads, most)
		}
	})
}

// TestAWakeDeletesWhatWasPublished has a caller that waits for the row to go.
func TestAWakeDeletesWhatWasPublished(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, _ *model) {
		f := forward(t, l, new(model), outbox.Options{Interval: time.Hour})
		l.add(f, "a")
		synctest.Wait()
		f.Wake()
		synctest.Wait()
		if left := l.left(); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	})
}

func TestOutageBeginsAgainFromTheOldest(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		began := time.Now()
		p.publish = failIf(fmt.Errorf("%w: no connection", broker.ErrUnavailable), func(broker.Message) bool { return time.Since(began) < 10*time.Minute })
		f := forward(t, l, p, outbox.Options{})
		l.add(f, "a", "a")
		wait(5 * time.Minute)
		l.add(f, "a")
		wait(6 * time.Minute)
		if diff := cmp.Diff(map[string][]string{"a": {"id-1", "id-2", "id-3"}}, p.ids); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		if late := p.at("id-3").Sub(began) - 10*time.Minute; late > 500*time.Millisecond {
			t.Errorf("went on %v after the broker was back, want at most half a second", late)
		}
		if p.calls > 1300 { // two a second
			t.Errorf("tried %d times in ten minutes", p.calls)
		}
		if len(l.left()) > 0 || len(l.parked) > 0 {
			t.Errorf("left %v, parked %v", l.left(), l.parked)
		}
	})
}

func TestRefusedRowIsParkedAndDelaysNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		refusals := 0
		p.publish = func(m broker.Message) error {
			if m.UUID == "id-2" {
				refusals++
				return fmt.Errorf("%w: too large", broker.ErrRefused)
			}
			return nil
		}
		var parked []string
		f := forward(t, l, p, outbox.Options{MaxAttempts: 5, Settled: func(_ time.Time, _ string, _ outbox.Row, err error) {
			if err != nil {
				parked = append(parked, err.Error())
			}
		}})
		l.append("a", "a", "a", "b")
		began := time.Now()
		f.Appended(1)
		synctest.Wait()
		if diff := cmp.Diff(map[string][]string{"a": {"id-1", "id-3"}, "b": {"id-4"}}, p.ids); diff != "" {
			t.Errorf("published at once (-want +got):\n%s", diff)
		}
		for range 100 { // a steady stream neither starves the bad row nor waits for it
			l.add(f, "a")
			synctest.Wait()
			if n := l.seq; !p.at(fmt.Sprint("id-", n)).Equal(time.Now()) {
				t.Fatalf("id-%d was delayed", n)
			}
			time.Sleep(20 * time.Millisecond)
		}
		wait(10 * time.Second)
		if l.parked[2] == "" || len(parked) != 1 || len(l.left()) != 0 {
			t.Errorf("parked %v (notified %q), left %v; want the second row only", l.parked, parked, l.left())
		}
		if refusals != 5 {
			t.Errorf("tried %d times in %v", refusals, time.Since(began))
		}
	})
}

// TestFailedChangesAreTriedAgain has a table that fails, and nothing published
// twice because of it.
func TestFailedChangesAreTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		var well atomic.Bool
		l.fail = func(op string) error {
			if !well.Load() && op != "head" {
				return errors.New("disk full")
			}
			return nil
		}
		p.publish = func(m broker.Message) error {
			switch {
			case m.UUID == "id-2" && !well.Load():
				return errTopic
			case m.UUID == "id-3":
				return fmt.Errorf("%w: too large", broker.ErrRefused)
			}
			return nil
		}
		f := forward(t, l, p, outbox.Options{MaxAttempts: 1})
		l.add(f, "a", "a", "a")
		time.Sleep(time.Minute)
		well.Store(true)
		l.emptied()
		if diff := cmp.Diff([]string{"id-1", "id-2"}, p.ids["a"]); diff != "" || l.parked[3] == "" {
			t.Errorf("parked %v, published (-want +got):\n%s", l.parked, diff)
		}
	})
}

// TestWhatIsBeingDeletedIsNotPublishedAgain has a table that takes long.
func TestWhatIsBeingDeletedIsNotPublishedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		l.fail = func(op string) error {
			if op == "delete" {
				time.Sleep(time.Minute)
			}
			return nil
		}
		f := forward(t, l, p, outbox.Options{Interval: time.Second})
		l.add(f, "a", "a")
		time.Sleep(10 * time.Second) // several intervals into the delete
		l.add(f, "a")
		wait(time.Hour)
		if diff := cmp.Diff([]string{"id-1", "id-2", "id-3"}, p.ids["a"]); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		if left := l.left(); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	})
}

func TestStopFinishesTheBatchInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		p.takes = func(broker.Message) time.Duration { return outbox.StopTimeout / 3 }
		l.append("a")
		_, stop := forwardUntil(t, l, p, outbox.Options{})
		synctest.Wait()
		stop()
		if len(p.ids["a"]) != 1 || len(l.left()) != 0 {
			t.Errorf("published %v and left %v: the next start would publish it again", p.ids["a"], l.left())
		}
	})
}

// TestStopEndsInTime has a broker that does not answer, and a table that fails.
func TestStopEndsInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		p.takes = func(m broker.Message) time.Duration {
			return map[bool]time.Duration{true: time.Hour}[m.Topic == "mute"]
		}
		l.fail = func(op string) error {
			if op == "delete" {
				return errors.New("disk full")
			}
			return nil
		}
		l.append("a")
		f, stop := forwardUntil(t, l, p, outbox.Options{})
		time.Sleep(time.Minute)
		for range 50 {
			l.add(f, "mute")
			time.Sleep(200 * time.Millisecond)
		}
		began := time.Now()
		stop()
		if took := time.Since(began); took > outbox.StopTimeout {
			t.Errorf("the stop took %v, want at most %v", took, outbox.StopTimeout)
		}
	})
}

func TestFatalStoreEndsTheForwarder(t *testing.T) {
	t.Parallel()
	shards := newBoard(1)
	shards.fail = fmt.Errorf("%w: replaced", timer.ErrFatal)
	for name, o := range map[string]outbox.Outbox{
		"a table": {Table: &table{fail: func(string) error { return timer.ErrFatal }}}, "shards": {Shards: shards},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := outbox.New(o, new(model), payload, timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler), outbox.Options{})
			if err := f.Run(t.Context()); !errors.Is(err, timer.ErrFatal) {
				t.Errorf("%s: %v, want ErrFatal", name, err)
			}
		})
	}
}

// TestDrainWaitsForNothingInVain has a row that the broker refuses, one whose topic has
// failed for an hour, and one whose topic fails for a second and a half. A stop, which drains,
// waits for the last one only.
func TestDrainWaitsForNothingInVain(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		var briefly atomic.Bool
		briefly.Store(true)
		p.publish = func(m broker.Message) error {
			switch {
			case m.Topic == "refused":
				return fmt.Errorf("%w: too large", broker.ErrRefused)
			case m.Topic == "failed", m.Topic == "brief" && briefly.Load():
				return errTopic
			}
			return nil
		}
		f := forward(t, l, p, outbox.Options{MaxAttempts: 1000})
		l.add(f, "refused", "failed", "good")
		time.Sleep(time.Hour)
		drains := func(want time.Duration) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began := time.Now()
			if err := f.Drain(ctx); err != nil {
				t.Errorf("drain: %v", err)
			}
			if took := time.Since(began); took < want || took > want+3*time.Second {
				t.Errorf("drained after %v, want %v", took, want)
			}
		}
		drains(0)
		l.add(f, "brief")
		synctest.Wait()
		// Of the back-offs that can begin meanwhile the sixth is the longest, of 1.6 s. The seventh
		// could exceed the three seconds of drains.
		const brief = 1500 * time.Millisecond
		time.AfterFunc(brief, func() { briefly.Store(false) })
		drains(brief)
		if left := l.left(); !slices.Equal(left, []int64{1, 2}) {
			t.Errorf("rows %v are left, want 1 and 2", left)
		}
	})
}

// A process that is killed soon has deleted most of the events that it published.
func TestSenderBeginsWithASmallBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, l *table, p *model) {
		for range 1000 {
			l.append("a")
		}
		var sizes []int
		f := forward(t, l, p, outbox.Options{Batch: 500, Published: func(_ time.Time, events []*message.Message) { sizes = append(sizes, len(events)) }})
		if err := f.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{64, 128, 256, 500, 52}, sizes); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}
