package storetest

import (
	"cmp"
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
	for _, batch := range []int{100, 1000} {
		b.Run(fmt.Sprint("fire/batch=", batch), func(b *testing.B) { benchFire(b, open(b), batch, 1) })
	}
	b.Run("fire/batch=100/tenants=500", func(b *testing.B) { benchFire(b, open(b), 100, 500) })
	most := 1_000_000
	if testing.Short() {
		most = 20_000
	}
	for _, timers := range []int{0, most} {
		b.Run(fmt.Sprint("schedule/batch=100/pending=", timers), func(b *testing.B) { benchGrowth(b, open(b), timers) })
	}
}

// bench makes up commands, with identifiers as producers make them.
type bench struct {
	*testing.B
	store Store
	made  int
	span  time.Duration // in which they are due, in no order; default an hour
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
			DueAt:         noon.Add(time.Duration(int64(b.made)*2654435761%cmp.Or(b.span, time.Hour).Milliseconds()) * time.Millisecond),
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

// benchGrowth schedules timers that are due within 30 days, next to others that are.
func benchGrowth(tb *testing.B, store Store, pending int) {
	b := &bench{B: tb, store: store, span: 30 * 24 * time.Hour}
	began := time.Now()
	b.fill(pending, 100)
	filled := time.Since(began)
	for b.Loop() {
		b.fill(100, 100)
	}
	b.rate(b.made-pending, "timers")
	if pending > 0 {
		b.ReportMetric(float64(pending)/filled.Seconds(), "filled/s")
	}
}

// benchFire polls, reaches and emits as the poller does, out of a hundred thousand
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
