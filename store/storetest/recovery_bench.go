package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// benchNoted schedules, fires, and deletes events from the outbox, as a service does that
// keeps up, while the positions of some logs rise with each transaction.
func benchNoted(tb *testing.B, store Store, batch, logs int) {
	b := &bench{B: tb, store: store}
	var at atomic.Int64
	positions := make([]timer.Position, logs)
	store.CommitPositions(func() []timer.Position {
		n := at.Add(int64(batch))
		for i := range positions {
			positions[i] = timer.Position{Log: fmt.Sprint("0197f5a0-0000-7000-a000-000000000000/timer.commands/", i), Committed: n, Observed: n + int64(batch)}
		}
		return positions
	})
	last := int64(0)
	for b.Loop() {
		b.fill(batch, 100)
		b.must(store.Update(b.Context(), func(tx timer.Tx) error {
			_, err := fire(b.Context(), tx, noon.Add(time.Hour), batch)
			return err
		}))
		rows, err := store.Head(b.Context(), last, batch)
		b.must(err)
		places := make([]outbox.Place, len(rows))
		for i, row := range rows {
			places[i] = row.Place
		}
		last = places[len(places)-1].Seq
		b.must(store.Delete(b.Context(), places...))
	}
	b.rate(b.made, "timers")
}

// benchFired brings in events, of timers that are Scheduled or of which there is none.
func benchFired(tb *testing.B, store Store, batch int, known bool) {
	b := &bench{B: tb, store: store}
	for b.Loop() {
		b.StopTimer()
		commands := b.commands(batch, 100)
		if known {
			_, err := store.Schedule(b.Context(), noon, commands...)
			b.must(err)
		}
		events := make([]timer.DueTimeReached, len(commands))
		for i, c := range commands {
			events[i] = timer.DueTimeReached{Key: c.Key, CommandID: c.CommandID, CorrelationID: c.CorrelationID, DueAt: c.DueAt, ReachedAt: c.DueAt}
		}
		b.StartTimer()
		_, err := store.Fired(b.Context(), keep, events...)
		b.must(err)
	}
	b.rate(b.made, "events")
}
