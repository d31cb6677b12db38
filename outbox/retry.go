package outbox

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
)

const (
	retryInterval = 50 * time.Millisecond // least pause between two searches for rows that are due again
	retryPause    = 10                    // the pause after a search is retryPause times its duration, up to maxRetryPause
	maxRetryPause = 5 * time.Second
	maxRetryWait  = time.Minute // longest wait for a row that is due later: the clock may be set, and others may change the table
	retryRows     = 128         // rows of a search
	retryEach     = 16          // rows that probe a destination
)

// never is later than any time that a row is retried at.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// sendDeferred looks for destinations that have rows which are due, and probes each with a few
// of them. However many rows one destination has, it costs little and delays no other.
func (s *sender) sendDeferred(ctx context.Context, p *pipeline) {
	from := ""                 // the destination where the search begins; empty: a round of all begins
	idle := false              // the round has taken nothing so far
	var began, woken time.Time // when the round began, and when a destination that rests is tried again
	failures := 0
	var last time.Time // when a search began, by the wall clock
	for free := p.vacancy(ctx); free > 0; free = p.vacancy(ctx) {
		if p.away.Swap(false) {
			pause.For(ctx, retry.Connection.Longest)
		}
		now := s.clock.Now()
		// This process may have a handler that does not fail. And rows that were deferred by
		// a clock that was ahead would wait until it is as late again.
		wall := now.Round(0)
		if last.IsZero() || last.Sub(wall) > retry.Publish.Longest {
			if err := s.table.Hasten(ctx, now); err != nil {
				s.pauseAfter(ctx, &failures, err)
				continue
			}
		}
		last = wall
		if from == "" {
			idle, began, woken = true, now, never
			select {
			case <-s.retry: // the round finds the rows that it announces
			default:
			}
		}
		more := s.handlerRows()
		limit := min(free, retryRows) + more
		rows, taken, err := s.due(ctx, now, from, limit, retryEach+more, func(name string) bool {
			d := s.destinations.get(name)
			if d.rests(now) && d.next.Before(woken) {
				woken = d.next
			}
			return !d.busy && !d.rests(now)
		})
		if err != nil {
			s.pauseAfter(ctx, &failures, err)
			continue
		}
		failures = 0
		idle = idle && len(taken) == 0
		from = ""
		if len(rows) == limit {
			from = rows[len(rows)-1].Destination + "\x01" // behind it, however much it has
		}
		byName := make(map[string][]Row)
		for _, row := range taken {
			byName[row.Destination] = append(byName[row.Destination], row)
		}
		for name, rows := range byName {
			p.probe(ctx, name, rows)
		}
		wait := min(max(retryPause*s.clock.Now().Sub(now), s.interval), maxRetryPause)
		if idle && from == "" {
			s.awaitDeferred(ctx, began, woken, wait)
			continue
		}
		pause.For(ctx, wait)
	}
}

// probe publishes rows of a destination. As long as it takes some, probe publishes the due rows
// behind them, in batches that grow.
func (p *pipeline) probe(ctx context.Context, name string, rows []Row) {
	rows, messages := p.dispatch(rows)
	if len(rows) == 0 {
		return
	}
	p.destinations.change(name, func(d *destination) { d.busy = true })
	p.publishes.Go(func() {
		defer func() { // rows that it left are for the next search
			p.destinations.change(name, func(d *destination) { d.busy = false })
			notify(p.retry)
		}()
		for size := 2 * retryEach; p.publish(rows, messages); size = min(2*size, p.opt.Batch) {
			n := min(size, p.opt.Batch-int(p.rows.Load()))
			if n <= 0 {
				return
			}
			_, taken, err := p.due(ctx, p.clock.Now(), name, n, n, func(of string) bool { return of == name })
			if rows, messages = p.dispatch(taken); err != nil || len(rows) == 0 {
				return // the next search reports the error
			}
		}
	})
}

// due reads deferred rows that are due, as [Table.Deferred] has them. Of these it returns the
// rows to be published, of destinations that are wanted. One read is under way at a time.
func (s *sender) due(ctx context.Context, now time.Time, from string, limit, each int, wanted func(destination string) bool) (all, taken []Row, err error) {
	s.searching <- struct{}{}
	defer func() { <-s.searching }()
	_, taken, err = s.read(false, func() (rows []Row, err error) {
		all, err = s.table.Deferred(ctx, now, from, limit, each)
		return slices.DeleteFunc(slices.Clone(all), func(r Row) bool { return !wanted(r.Destination) }), err
	})
	return all, taken, err
}

// awaitDeferred waits until a row that was not due yet is, or until a destination that rests is
// tried again, at least for the time given. It returns that time after rows were deferred, or are
// left to the next search.
func (s *sender) awaitDeferred(ctx context.Context, after, woken time.Time, least time.Duration) {
	next, err := s.table.NextRetry(ctx, after)
	if next.IsZero() || woken.Before(next) {
		next = woken
	}
	wait := min(next.Sub(s.clock.Now()), maxRetryWait)
	if err != nil {
		wait = least
	}
	due := time.NewTimer(max(wait, least))
	defer due.Stop()
	select {
	case <-due.C:
	case <-s.retry:
		pause.For(ctx, least)
	case <-ctx.Done():
	}
}

// A report logs that the broker is unavailable, now and then, and when it is back.
type report struct {
	mu    sync.Mutex
	last  time.Time
	since time.Time // since when the broker was unavailable; zero if it is not
}

const reportInterval = 10 * time.Second

func (r *report) add(log *slog.Logger, now time.Time, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case o.handled:
	case o.away == nil && len(o.acked) > 0 && !r.since.IsZero():
		log.Info("the broker is available again, events are published", "unavailable_for", now.Sub(r.since).Round(time.Millisecond))
		r.since, r.last = time.Time{}, time.Time{}
	case o.away != nil && now.Sub(r.last).Abs() >= reportInterval:
		log.Warn("the broker is unavailable, events wait in the outbox", "error", o.away)
		if r.last = now; r.since.IsZero() {
			r.since = now
		}
	}
}
