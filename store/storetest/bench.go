package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// Bench measures a store. Open is that of [Run].
func Bench(b *testing.B, open func(testing.TB) Store) {
	for _, batch := range []int{1, 100, 2000} {
		b.Run(fmt.Sprint("schedule/batch=", batch), func(b *testing.B) { benchSchedule(b, open(b), batch) })
	}
	b.Run("schedule/known=2000", func(b *testing.B) { benchKnown(b, open(b), 2000) })
	b.Run("cancel/batch=2000", func(b *testing.B) { benchCancel(b, open(b), 2000) })
	for _, batch := range []int{100, 1000} {
		b.Run(fmt.Sprint("fire/batch=", batch), func(b *testing.B) { benchFire(b, open(b), batch, 1) })
	}
	b.Run("fire/batch=100/tenants=500", func(b *testing.B) { benchFire(b, open(b), 100, 500) })
	b.Run("forward/batch=1000", func(b *testing.B) { benchForward(b, open(b), 1000) })
	b.Run("next due", func(b *testing.B) { benchNextDue(b, open(b)) })
}

// bench makes up commands, with identifiers as producers make them.
type bench struct {
	*testing.B
	store Store
	made  int
}

func (b *bench) commands(n, tenants int) []timer.ScheduleTimer {
	commands := make([]timer.ScheduleTimer, n)
	for i := range commands {
		b.made++
		commands[i] = timer.ScheduleTimer{
			Key: timer.Key{
				TenantID:      timer.TenantID(fmt.Sprintf("tenant-%04d", b.made%tenants)),
				ServiceCallID: timer.ServiceCallID(fmt.Sprintf("0197f5a0-%04x-7000-8000-%012x", b.made>>12&0xffff, b.made*2654435761)),
			},
			Version:       timer.Version{TimestampMS: noon.UnixMilli(), CommandID: fmt.Sprintf("0197f5a0-%04x-7000-9000-%012x", b.made>>12&0xffff, b.made)},
			CorrelationID: fmt.Sprintf("0197f5a0-0000-7000-a000-%012x", b.made),
			DueAt:         noon.Add(time.Duration(b.made*7919%3_600_000) * time.Millisecond),
		}
	}
	return commands
}

func (b *bench) must(err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

func (b *bench) fill(n, tenants int) {
	for n > 0 {
		size := min(n, 2000)
		_, err := b.store.Schedule(b.Context(), noon, b.commands(size, tenants)...)
		b.must(err)
		n -= size
	}
}

// rate reports how many a second.
func (b *bench) rate(n int, unit string) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), unit+"/s")
	b.ReportMetric(0, "ns/op")
}

func benchSchedule(tb *testing.B, store Store, batch int) {
	b := &bench{B: tb, store: store}
	for b.Loop() {
		b.fill(batch, 100)
	}
	b.rate(b.made, "timers")
}

// benchKnown schedules timers again, each with a newer command.
func benchKnown(tb *testing.B, store Store, batch int) {
	b := &bench{B: tb, store: store}
	commands := b.commands(batch, 100)
	_, err := b.store.Schedule(b.Context(), noon, commands...)
	b.must(err)
	n := 0
	for b.Loop() {
		for i := range commands {
			commands[i].TimestampMS++
		}
		_, err := b.store.Schedule(b.Context(), noon, commands...)
		b.must(err)
		n += batch
	}
	b.rate(n, "timers")
}

func benchCancel(tb *testing.B, store Store, batch int) {
	b := &bench{B: tb, store: store}
	n := 0
	cancels := make([]timer.CancelTimer, batch)
	for b.Loop() {
		b.StopTimer()
		commands := b.commands(batch, 100)
		_, err := b.store.Schedule(b.Context(), noon, commands...)
		b.must(err)
		for i, c := range commands {
			c.TimestampMS++
			cancels[i] = timer.CancelTimer{Key: c.Key, Version: c.Version}
		}
		b.StartTimer()
		_, err = b.store.Cancel(b.Context(), noon, cancels...)
		b.must(err)
		n += batch
	}
	b.rate(n, "timers")
}

// benchFire looks, reaches and emits as the poller does, out of a hundred thousand
// timers. They are made anew when they are all reached, outside the measurement.
func benchFire(tb *testing.B, store Store, batch, tenants int) {
	b := &bench{B: tb, store: store}
	fired, left := 0, 0
	for b.Loop() {
		if left < 2*batch {
			b.StopTimer()
			b.fill(100_000, tenants)
			left += 100_000
			b.StartTimer()
		}
		_, err := b.store.NextDue(b.Context(), time.Time{})
		b.must(err)
		b.must(b.store.Update(b.Context(), func(tx timer.Tx) error {
			events, err := fire(b.Context(), tx, noon.Add(time.Hour), batch)
			fired += len(events)
			left -= len(events)
			return err
		}))
	}
	b.rate(fired, "timers")
}

// benchForward reads and deletes what the outbox holds, without a broker.
func benchForward(tb *testing.B, store Store, batch int) {
	b := &bench{B: tb, store: store}
	forwarded, left := 0, 0
	for b.Loop() {
		if left < batch {
			b.StopTimer()
			events := make([]timer.DueTimeReached, 50*batch)
			for i := range events {
				events[i] = event(i)
			}
			b.must(b.store.Update(b.Context(), func(tx timer.Tx) error { return tx.Emit(b.Context(), events...) }))
			left += len(events)
			b.StartTimer()
		}
		rows, err := b.store.Head(b.Context(), 0, batch)
		b.must(err)
		seqs := make([]int64, len(rows))
		for i, row := range rows {
			seqs[i] = row.Seq
		}
		b.must(b.store.Delete(b.Context(), seqs...))
		forwarded += len(rows)
		left -= len(rows)
	}
	b.rate(forwarded, "events")
}

func benchNextDue(tb *testing.B, store Store) {
	b := &bench{B: tb, store: store}
	b.fill(100_000, 100)
	for b.Loop() {
		_, err := b.store.NextDue(b.Context(), time.Time{})
		b.must(err)
	}
}
