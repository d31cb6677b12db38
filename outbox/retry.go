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
	retryInterval = 50 * time.Millisecond // least pause between rounds in which no row gets through
	retryPause    = 10                    // the pause after such a round is so many times as long as the round, at most maxRetryPause
	maxRetryPause = 5 * time.Second
	retryRows     = 128         // rows of a round
	retryEach     = 16          // rows of a destination in a round
	followTime    = time.Second // how long rounds wait for destinations that work again
)

// never is later than any time that a row is retried at.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// sendDeferred retries deferred rows in rounds. A round is small: it takes due rows of a few
// destinations, and the next round takes rows of the next destinations. However many rows
// one destination has, it costs little and delays no other. Where rows get through, the
// sender goes on with the rows behind them.
func (s *sender) sendDeferred(ctx context.Context, p *pipeline) {
	from := "" // the destination where the round begins
	failures := 0
	var last time.Time // when a round began, by the wall clock
	for free := p.vacancy(ctx); free > 0; free = p.vacancy(ctx) {
		began, handled := s.clock.Now(), 0
		// This process may have a handler that does not fail. And rows that were deferred by
		// a clock that was ahead would wait until it is as late again.
		wall := began.Round(0)
		if last.IsZero() || last.Sub(wall) > retry.Publish.Longest {
			if err := s.table.Hasten(ctx, began); err != nil {
				s.pauseAfter(ctx, &failures, err)
				continue
			}
		}
		last = wall
		if len(s.opt.Handlers) > 0 { // may take long, and the rows are read again and again meanwhile
			handled = int(p.rows.Load())
		}
		limit := min(free, retryRows) + handled
		rows, taken, err := s.read(false, func() ([]Row, error) { return s.table.Deferred(ctx, began, from, limit, retryEach+handled) })
		if err != nil {
			s.pauseAfter(ctx, &failures, err)
			continue
		}
		all := from == "" // destinations were asked for
		from = ""
		if len(rows) == limit {
			from = rows[len(rows)-1].Destination + "\x01" // behind it, however much it has
		}
		through := s.follow(ctx, p, p.publish(taken))
		switch {
		case p.away.Swap(false):
			failures++
			pause.For(ctx, retry.Connection.After(failures))
			continue
		case len(rows) == 0 && all:
			s.awaitDeferred(ctx)
		case !through:
			took := s.clock.Now().Sub(began)
			pause.For(ctx, min(max(retryPause*took, s.interval), maxRetryPause))
		}
		failures = 0
	}
}

// follow publishes further due rows of the destinations where rows got through, in batches
// that grow, until none gets through. It reports whether any did.
func (s *sender) follow(ctx context.Context, p *pipeline, through map[string]bool) bool {
	if len(through) == 0 {
		return false
	}
	enough := time.NewTimer(followTime)
	defer enough.Stop()
	for size := 2 * retryRows; len(through) > 0; size = min(2*size, s.opt.Batch) {
		select {
		case <-enough.C:
			return true
		default:
		}
		free := p.vacancy(ctx)
		if free == 0 {
			return true
		}
		each := max(1, min(size, free)/len(through))
		_, batch, err := s.read(false, func() (rows []Row, err error) {
			for destination := range through {
				due, err := s.table.Deferred(ctx, s.clock.Now(), destination, each, each)
				if err != nil {
					return nil, err
				}
				rows = append(rows, slices.DeleteFunc(due, func(r Row) bool { return r.Destination != destination })...)
			}
			return rows, nil
		})
		if err != nil {
			return true // the next round will say so
		}
		through = p.publish(batch)
	}
	return true
}

// awaitDeferred waits for the next round: an interval, or if there are no deferred
// rows until there are some.
func (s *sender) awaitDeferred(ctx context.Context) {
	rows, err := s.table.Deferred(ctx, never, "", 1, 1)
	if err != nil || len(rows) > 0 {
		pause.For(ctx, s.interval)
		return
	}
	select {
	case <-s.retry:
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
