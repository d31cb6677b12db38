package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// Bench measures a store. Open is that of [Run].
func Bench(b *testing.B, open func(testing.TB) Store) {
	for _, batch := range []int{1, 100, 2000} {
		b.Run(fmt.Sprint("schedule/batch=", batch), func(b *testing.B) { benchSchedule(b, open(b), batch, "") })
	}
	for _, bytes := range []int{100, 1024} {
		data := `{"attempt":3,"order":"` + strings.Repeat("x", bytes-24) + `"}`
		b.Run(fmt.Sprint("schedule/batch=2000/data=", bytes), func(b *testing.B) { benchSchedule(b, open(b), 2000, data) })
		b.Run(fmt.Sprint("fire/batch=1000/data=", bytes), func(b *testing.B) { benchFire(b, open(b), 1000, 1, data) })
	}
	for _, batch := range []int{1, 100, 1000} {
		for _, logs := range []int{0, 1, 12} {
			b.Run(fmt.Sprint("noted/batch=", batch, "/logs=", logs), func(b *testing.B) { benchNoted(b, open(b), batch, logs) })
		}
	}
	b.Run("fired/batch=2000/known", func(b *testing.B) { benchFired(b, open(b), 2000, true) })
	b.Run("fired/batch=2000/absent", func(b *testing.B) { benchFired(b, open(b), 2000, false) })
	b.Run("alone", func(b *testing.B) { benchAlone(b, open(b)) })
	b.Run("schedule/known=2000", func(b *testing.B) { benchKnown(b, open(b), 2000) })
	b.Run("cancel/batch=2000", func(b *testing.B) { benchCancel(b, open(b), 2000) })
	for _, batch := range []int{100, 1000} {
		b.Run(fmt.Sprint("fire/batch=", batch), func(b *testing.B) { benchFire(b, open(b), batch, 1, "") })
	}
	b.Run("fire/batch=100/tenants=500", func(b *testing.B) { benchFire(b, open(b), 100, 500, "") })
	b.Run("forward/batch=1000", func(b *testing.B) { benchForward(b, open(b), 1000) })
	most := 1_000_000
	if testing.Short() {
		most = 20_000
	}
	for _, dead := range []int{0, most} {
		b.Run(fmt.Sprint("forwarder/dead=", dead), func(b *testing.B) { benchForwarder(b, open(b), dead) })
	}
	for _, timers := range []int{10_000, most} {
		b.Run(fmt.Sprint("due/timers=", timers), func(b *testing.B) { benchDue(b, open(b), timers) })
	}
	for _, timers := range []int{0, most} {
		b.Run(fmt.Sprint("schedule/batch=100/pending=", timers), func(b *testing.B) { benchGrowth(b, open(b), timers) })
	}
	b.Run("next due", func(b *testing.B) { benchNextDue(b, open(b)) })
	for _, timers := range []int{10_000, most} {
		b.Run(fmt.Sprint("upcoming/timers=", timers), func(b *testing.B) { benchUpcoming(b, open(b), timers) })
	}
	b.Run("firing", func(b *testing.B) { benchFiring(b, open(b)) })
	b.Run("forget/batch=500", func(b *testing.B) { benchForget(b, open(b), 500) })
}

// bench makes up commands, with identifiers as producers make them.
type bench struct {
	*testing.B
	store Store
	made  int
	data  string        // of each command
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
			Data:          b.data,
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

func benchSchedule(tb *testing.B, store Store, batch int, data string) {
	b := &bench{B: tb, store: store, data: data}
	for b.Loop() {
		b.fill(batch, 100)
	}
	b.rate(b.made, "timers")
}

// benchAlone schedules timers one by one, each of which fires at once.
func benchAlone(tb *testing.B, store Store) {
	b := &bench{B: tb, store: store}
	for b.Loop() {
		b.fill(1, 100)
		_, err := b.store.NextDue(b.Context(), time.Time{})
		b.must(err)
		b.must(b.store.Update(b.Context(), func(tx timer.Tx) error {
			_, err := fire(b.Context(), tx, noon.Add(time.Hour), 1000)
			return err
		}))
	}
	b.rate(b.made, "timers")
}

// benchGrowth schedules timers that are due within 30 days, beside others that are.
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

// benchFire polls, reaches and emits as the poller does, out of a hundred thousand
// timers. They are made anew when they are all reached, outside the measurement.
func benchFire(tb *testing.B, store Store, batch, tenants int, data string) {
	b := &bench{B: tb, store: store, data: data}
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
		places := make([]outbox.Place, len(rows))
		for i, row := range rows {
			places[i] = row.Place
		}
		b.must(b.store.Delete(b.Context(), places...))
		forwarded += len(rows)
		left -= len(rows)
	}
	b.rate(forwarded, "events")
}

// benchForwarder delivers events through a forwarder, to a broker that takes no
// time, while those of a topic wait that is down.
func benchForwarder(tb *testing.B, store Store, dead int) {
	b := &bench{B: tb, store: store}
	const batch = 20_000
	emit := func(tenant timer.TenantID, n int) {
		events := make([]timer.DueTimeReached, n)
		for i := range events {
			events[i] = event(i)
			events[i].TenantID = tenant
		}
		b.must(b.store.Update(b.Context(), func(tx timer.Tx) error { return tx.Emit(b.Context(), events...) }))
	}
	for n := dead; n > 0; n -= batch {
		emit("dead", batch)
		rows, err := b.store.Head(b.Context(), 0, batch)
		b.must(err)
		deferrals := make([]outbox.Deferral, len(rows))
		for i, row := range rows {
			deferrals[i] = outbox.Deferral{Place: row.Place, Destination: "dead", Reason: "down", RetryAt: noon.AddDate(-10, 0, 0)}
		}
		b.must(b.store.Defer(b.Context(), deferrals...))
	}
	acked := make(chan int, 1000)
	tries := new(atomic.Int64)
	pub := publisher(func(m broker.Message) error {
		if m.Topic == "dead" {
			tries.Add(1)
			return errors.New("down")
		}
		return nil
	})
	f := outbox.New(outbox.Single(store), pub, func(m *message.Message) string { return m.Metadata.Get(envelope.HeaderTenantID) },
		timer.ClockFunc(time.Now), slog.New(slog.DiscardHandler), outbox.Options{Published: func(_ time.Time, events []*message.Message) { acked <- len(events) }})
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { b.must(f.Run(ctx)) })
	delivered := 0
	for b.Loop() {
		b.StopTimer()
		emit("acme", batch)
		b.StartTimer()
		f.Appended(batch)
		for want := delivered + batch; delivered < want; {
			delivered += <-acked
		}
	}
	b.rate(delivered, "events")
	b.ReportMetric(float64(tries.Load())/b.Elapsed().Seconds(), "retries/s")
	stop()
	running.Wait()
}

// A publisher takes messages one by one.
type publisher func(broker.Message) error

func (p publisher) Publish(_ context.Context, messages ...broker.Message) []error {
	results := make([]error, len(messages))
	for i, m := range messages {
		results[i] = p(m)
	}
	return results
}

// benchDue reads the first page of what is due soon, the last one, and how many are
// overdue.
func benchDue(tb *testing.B, store Store, timers int) {
	b := &bench{B: tb, store: store}
	b.fill(timers, 100)
	end := noon.Add(1000 * time.Hour)
	var last string // page but one
	for after := ""; ; {
		page, err := b.store.List(b.Context(), timer.Filter{DueBefore: end, After: after, Limit: timer.MaxPage})
		b.must(err)
		if page.Next == "" {
			break
		}
		last, after = after, page.Next
	}
	for name, read := range map[string]func() error{
		"first": func() error {
			_, err := b.store.List(b.Context(), timer.Filter{DueBefore: end, After: "", Limit: timer.DefaultPage})
			return err
		},
		"last": func() error {
			_, err := b.store.List(b.Context(), timer.Filter{DueBefore: end, After: last, Limit: timer.DefaultPage})
			return err
		},
		"overdue": func() error { _, err := b.store.Overdue(b.Context(), "", end); return err },
	} {
		b.Run(name, func(tb *testing.B) {
			for tb.Loop() {
				b.must(read())
			}
		})
	}
}

func benchNextDue(tb *testing.B, store Store) {
	b := &bench{B: tb, store: store}
	b.fill(100_000, 100)
	for b.Loop() {
		_, err := b.store.NextDue(b.Context(), time.Time{})
		b.must(err)
	}
}

// benchUpcoming counts the timers of each minute of an hour in which all are due.
func benchUpcoming(tb *testing.B, store Store, timers int) {
	b := &bench{B: tb, store: store}
	b.fill(timers, 100)
	for b.Loop() {
		_, err := b.store.Upcoming(b.Context(), "", noon, time.Minute, 60)
		b.must(err)
	}
}

// benchFiring reads what the poller reads twice a second.
func benchFiring(tb *testing.B, store Store) {
	b := &bench{B: tb, store: store}
	b.must(b.store.PauseFiring(b.Context(), timer.Pause{Since: noon, By: "ops"}))
	for b.Loop() {
		_, err := b.store.Firing(b.Context(), noon)
		b.must(err)
	}
}

// benchForget forgets a tenant in steps, beside another one.
func benchForget(tb *testing.B, store Store, batch int) {
	b := &bench{B: tb, store: store}
	for b.Loop() {
		b.StopTimer()
		b.fill(100*batch, 2)
		b.StartTimer()
		for range 50 {
			c, err := b.store.Forget(b.Context(), "tenant-0001", batch)
			b.must(err)
			if c.Total() != int64(batch) {
				b.Fatalf("forgot %+v", c)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(50*b.N), "µs/step")
}

// BenchReferenced measures commands on a store with the foreign key, without and
// with one in each thousand that has no service call. Open is that of
// [Referenced].
func BenchReferenced(b *testing.B, open func(tb testing.TB, calls []timer.ServiceCallID) Store) {
	const batch, batches = 1000, 40
	for _, bad := range []int{0, 1} {
		b.Run(fmt.Sprintf("schedule/batch=%d/refused=%d", batch, bad), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				calls := existing(batch * batches)
				store := open(b, calls)
				rand.New(rand.NewPCG(1, 2)).Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
				b.StartTimer()
				for some := range slices.Chunk(calls, batch) {
					commands := make([]timer.ScheduleTimer, batch)
					for i, call := range some {
						commands[i] = single(call)
					}
					for i := range bad {
						commands[(i+batch)/2].ServiceCallID = "none"
					}
					if _, err := store.Schedule(b.Context(), noon, commands...); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N*batch*batches)/b.Elapsed().Seconds(), "timers/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
