package outbox

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/timer"
)

// firstBatch is how many rows a sender begins with, also after an outage; it
// doubles up to the batch. A process that is killed again and again then makes
// progress in each life: the rows that it has published are deleted before many
// more are.
const firstBatch = 64

// busyIntervals is how many intervals pass at most before a sender that has a backlog
// reads it again from the first row: what is in flight, and is read in vain then, was a
// third of all that it read.
const busyIntervals = 4

// A sender forwards one table. One loop reads the head, one the deferred rows, and
// a third goroutine settles what the first has published while that goes on.
//
//	read ─► in flight ─► Publish ─► deleted, deferred or parked ─► no longer in flight
type sender struct {
	*Forwarder
	table     Table
	backlog   backlog
	wake      chan struct{} // holds one
	published chan outcome  // of the head
	retry     chan struct{} // holds one: there are deferred rows again
	report    report

	fail       context.CancelCauseFunc // ends run
	stopping   context.Context         // ends with the context of run
	publishing context.Context         // ends with the time that a stop gives to the broker, or to handlers
	settling   context.Context         // ends with the time that a stop gives to the table

	mu       sync.Mutex
	inFlight map[Place]struct{}    // rows that were read and are not settled
	landed   time.Time             // when the last row was settled, or the first of those in flight was read
	readings map[*reading]struct{} // under way
	refusals map[int64]int         // how often the broker refused a row that is deferred

	unanswered unanswered
	unmoved    unmoved
	failing    failing
	kept       atomic.Int64 // rows that were acked and can't be deleted
}

func newSender(f *Forwarder, table Table) *sender {
	return &sender{
		failing: failing{keep: 2 * f.longest}, Forwarder: f, table: table, wake: make(chan struct{}, 1), retry: make(chan struct{}, 1),
		published: make(chan outcome, 1), inFlight: make(map[Place]struct{}), readings: make(map[*reading]struct{}), refusals: make(map[int64]int),
	}
}

// run sends until ctx is done and what is in flight is settled.
func (s *sender) run(ctx context.Context) error {
	ctx, s.fail = context.WithCancelCause(ctx)
	defer s.fail(nil)
	var endPublishing, endSettling context.CancelFunc
	grace := s.opt.Grace
	s.stopping = ctx
	s.publishing, endPublishing = pause.Outlive(ctx, 0, grace)
	defer endPublishing()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errOver) { // another one handles the rows, so handlers get no longer than a publish
			time.AfterFunc(StopTimeout/2, endPublishing)
		}
	})()
	s.settling, endSettling = pause.Outlive(ctx, 0, grace+StopTimeout/2)
	defer endSettling()

	head := newWindow(s, func(o outcome) { s.published <- o })
	retries := newWindow(s, s.settle)
	if len(s.opt.Deliver) > 0 {
		retries.finish = head.finish // its rows come one by one, too
	}
	var loops, settling sync.WaitGroup
	settling.Go(s.settlePublished)
	loops.Go(func() { s.sendHead(ctx, head) })
	loops.Go(func() { s.sendDeferred(ctx, retries) })
	if own, _ := s.current(); own == s {
		loops.Go(func() { s.claim(ctx) })
	}
	loops.Wait()
	head.publishes.Wait()
	retries.publishes.Wait()
	close(s.published)
	settling.Wait()
	if err := context.Cause(ctx); errors.Is(err, timer.ErrFatal) {
		return err
	}
	return nil
}

// sendHead reads the outbox from the first row to the last, again and again, and
// publishes what is not in flight. At the end it waits for new rows. Those that
// commit late are found when it reads again from an earlier row, see rereads, or
// from the first one, at the interval, or at each fourth while there is a backlog.
func (s *sender) sendHead(ctx context.Context, w *window) {
	var after int64 // the last row read
	failures := 0
	size := min(firstBatch, s.opt.Batch)
	again := time.NewTimer(s.opt.Interval)
	defer again.Stop()
	late := newRereads(s.outbox.shards != nil)
	defer late.timer.Stop()
	busy := 0 // intervals that ended while there were more rows
	for free := w.vacancy(ctx); free > 0; free = w.vacancy(ctx) {
		limit := min(size, free)
		appended := s.backlog.notified()
		reading := s.beginReading()
		rows, err := s.table.Head(ctx, after, limit)
		if err != nil {
			s.take(reading, nil)
			s.pauseAfter(ctx, &failures, err)
			continue
		}
		s.backlog.observe(rows, appended, len(rows) < limit)
		if len(rows) > 0 {
			after = rows[len(rows)-1].Seq
		}
		now := s.clock.Now()
		w.publish(w.except(s.take(reading, rows), func(row Row) (destination, reason string) {
			return s.unanswered.why(now, s.topic(row.Message))
		}))
		switch {
		case w.away.Swap(false): // what was not published is still in the outbox
			after, size = 0, min(firstBatch, s.opt.Batch)
			failures++
			pause.For(ctx, retry.Connection.After(failures))
			continue
		case len(rows) == limit: // there may be more
			failures, size = 0, min(2*size, s.opt.Batch)
			select {
			case <-again.C:
				if busy++; busy < busyIntervals {
					again.Reset(s.opt.Interval)
					continue
				}
			case <-late.timer.C:
				after = late.from(s.clock.Now(), after)
				continue
			default:
				continue
			}
		default:
			failures = 0
			select {
			case <-ctx.Done():
			case <-s.wake:
				if late.woken(s.clock.Now()) {
					after = late.from(s.clock.Now(), after)
				}
				continue
			case <-late.timer.C:
				after = late.from(s.clock.Now(), after)
				continue
			case <-again.C:
			}
		}
		after, busy = 0, 0
		again.Reset(s.opt.Interval)
	}
}

// pauseAfter waits after an error of the table. One that is fatal ends run.
func (s *sender) pauseAfter(ctx context.Context, failures *int, err error) {
	if errors.Is(err, timer.ErrFatal) {
		s.fail(err)
	}
	if ctx.Err() != nil {
		return
	}
	*failures++
	wait := retry.Database.After(*failures)
	s.log.WarnContext(ctx, "the outbox can't be read or changed, will retry", "error", err, "retry_in", wait)
	pause.For(ctx, wait)
}

// A reading is a read of the table that is under way. It may still return rows that
// were settled after it began.
type reading struct {
	began   time.Time
	settled map[Place]struct{} // these
}

// beginReading is called before the table is read.
func (s *sender) beginReading() *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &reading{began: s.clock.Now(), settled: make(map[Place]struct{})}
	s.readings[r] = struct{}{}
	return r
}

// take ends a reading and returns those of the rows read that are to be published:
// neither in flight nor settled meanwhile. They are in flight from now on.
func (s *sender) take(r *reading, rows []Row) (taken []Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readings, r)
	if len(s.inFlight) == 0 {
		s.landed = s.clock.Now()
	}
	for _, row := range rows {
		_, inFlight := s.inFlight[row.Place]
		_, settled := r.settled[row.Place]
		if !inFlight && !settled {
			s.inFlight[row.Place] = struct{}{}
			taken = append(taken, row)
		}
	}
	return taken
}

// land notes that rows are no longer in flight.
func (s *sender) land(rows ...Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.landed = s.clock.Now()
	for _, row := range rows {
		delete(s.inFlight, row)
		for r := range s.readings {
			r.settled[row] = struct{}{}
		}
	}
}

// refused counts a refusal of a row, and returns how many there were. They are not
// the attempts of the row, which may have failed for other reasons. A restart
// forgets them: then the broker is asked so often again.
func (s *sender) refused(seq int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals[seq]++
	return s.refusals[seq]
}

// forget drops the refusals of rows that are published or parked.
func (s *sender) forget(rows ...Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range rows {
		delete(s.refusals, row.Seq)
	}
}

// wakeUp makes the sender read the head of the table.
func (s *sender) wakeUp() { notify(s.wake) }

// notify sends to a channel that holds one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// left reports whether there are rows: at the head, or only deferred ones. What can't be
// read may have some.
func (s *sender) left(ctx context.Context) (head, deferred bool) {
	rows, err := s.table.Head(ctx, 0, 1)
	if err != nil || len(rows) > 0 {
		return true, false
	}
	rows, err = s.table.Deferred(ctx, never, "", 1, 1)
	return false, err != nil || len(rows) > 0
}

// drain waits until the table is empty, or over is closed. Then it returns errOver.
func (s *sender) drain(ctx context.Context, over <-chan struct{}) error {
	for {
		if head, deferred := s.left(ctx); !head && !deferred {
			return nil
		}
		s.wakeUp()
		select {
		case <-over:
			return errOver
		default:
		}
		if !pause.For(ctx, drainPause) {
			return ctx.Err()
		}
	}
}

// drainAbandoned waits until the table is empty, or ctx is done. It returns true before
// that if only deferred rows are left, and have had their turn, while the instance may
// own no more.
func (s *sender) drainAbandoned(ctx context.Context, full func() bool) bool {
	for began := s.clock.Now(); ; {
		wait := retryInterval
		switch head, deferred := s.left(ctx); {
		case head:
			s.wakeUp()
			wait = drainPause
		case !deferred:
			return false
		case full() && s.clock.Now().Sub(began).Abs() >= turn:
			return true
		}
		if !pause.For(ctx, wait) {
			return false
		}
	}
}
