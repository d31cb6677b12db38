package outbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/timer"
)

// firstBatch is how many rows a sender publishes first after a start or an outage. The
// number doubles up to the batch. A process that is killed again and again makes progress
// in each life this way: it has deleted the first rows before it publishes many more.
const firstBatch = 64

// A sender forwards one table. One goroutine reads and publishes the head, one the deferred
// rows, and a third settles rows of both. A fourth reads from the first row now and then, and a
// fifth claims rows.
//
//	read ─► in flight ─► Publish ─► deleted, deferred or parked ─► no longer in flight
type sender struct {
	*Forwarder
	table     Table
	backlog   backlog
	wake      chan struct{} // holds one
	published chan outcome  // to be settled together
	flush     chan struct{} // holds one: they are settled now
	retry     chan struct{} // holds one: there are deferred rows again
	report    report

	fail       context.CancelCauseFunc // ends run
	stopping   context.Context         // ends with the context of run
	publishing context.Context         // ends when a stop gives the broker, or handlers, no more time
	settling   context.Context         // ends when a stop gives the table no more time

	mu       sync.Mutex
	inFlight map[Place]struct{}      // rows that were read and are not settled
	landed   time.Time               // when a row was settled last, or when a row was read while none was in flight
	readings map[*tableRead]struct{} // reads of the table that are under way
	refusals map[int64]int           // how often the broker refused a deferred row, by its number

	searching    chan struct{} // holds one: deferred rows are being read
	destinations destinations
	unmoved      moveError
	failing      failingRows
	kept         atomic.Int64 // rows that were acked and can't be deleted
}

func newSender(f *Forwarder, table Table) *sender {
	return &sender{
		Forwarder: f, table: table, wake: make(chan struct{}, 1), retry: make(chan struct{}, 1),
		published: make(chan outcome, 1), flush: make(chan struct{}, 1), inFlight: make(map[Place]struct{}), readings: make(map[*tableRead]struct{}), refusals: make(map[int64]int),
		searching: make(chan struct{}, 1), destinations: destinations{byName: make(map[string]destination)},
	}
}

// run sends until ctx is done and the rows in flight are settled.
func (s *sender) run(ctx context.Context) error {
	ctx, s.fail = context.WithCancelCause(ctx)
	defer s.fail(nil)
	var endPublishing, endSettling context.CancelFunc
	s.stopping = ctx
	s.publishing, endPublishing = pause.Outlive(ctx, 0, s.opt.Grace)
	defer endPublishing()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errOver) { // another one handles the rows, so handlers get no longer than a publish
			time.AfterFunc(StopTimeout/2, endPublishing)
		}
	})()
	s.settling, endSettling = pause.Outlive(ctx, 0, s.opt.Grace+StopTimeout/2)
	defer endSettling()

	head := newPipeline(s, func(o outcome) { s.published <- o })
	retries := newPipeline(s, func(o outcome) {
		if len(o.acked) == 0 || o.handled { // many destinations may have one
			s.published <- o
			return
		}
		s.settle(o) // before rows behind them are read
	})
	var loops, settling sync.WaitGroup
	settling.Go(s.settlePublished)
	loops.Go(func() { s.sendHead(ctx, head) })
	loops.Go(func() { s.sendDeferred(ctx, retries) })
	if s.own.Load() == s {
		loops.Go(func() { s.claim(ctx) })
	}
	loops.Wait()
	for _, h := range s.opt.Handlers {
		for _, c := range h.queue.leave(s) {
			c.putOff(s.clock.Now())
		}
	}
	head.publishes.Wait()
	retries.publishes.Wait()
	close(s.published)
	settling.Wait()
	if err := context.Cause(ctx); errors.Is(err, timer.ErrFatal) {
		return err
	}
	return nil
}

// sendHead reads the outbox from the first row to the last, and publishes the rows. Behind
// the last row it waits at most an interval for new ones. It finds rows that commit late
// when it reads again from an earlier row, see rereads, or when fromFirst finds them.
func (s *sender) sendHead(ctx context.Context, p *pipeline) {
	var after int64 // the last row read
	failures := 0
	size := min(firstBatch, s.opt.Batch)
	poll := time.NewTicker(s.opt.Interval)
	defer poll.Stop()
	again := time.NewTimer(s.opt.Interval) // fires when fromFirst is to begin, and does not run during it
	defer again.Stop()
	var rereading sync.WaitGroup
	defer rereading.Wait()
	var reread atomic.Bool // fromFirst has read to the last row since the last poll
	late := newRereads(s.outbox.Shards != nil)
	defer late.timer.Stop()
	for free := p.vacancy(ctx); free > 0; free = p.vacancy(ctx) {
		limit := min(size, free)
		appended := s.backlog.notified()
		rows, taken, err := s.read(false, func() ([]Row, error) { return s.table.Head(ctx, after, limit) })
		if err != nil {
			s.pauseAfter(ctx, &failures, err)
			continue
		}
		s.backlog.observe(rows, appended, len(rows) < limit)
		if len(rows) > 0 {
			after = rows[len(rows)-1].Seq
		}
		p.send(taken)
		if p.away.Swap(false) { // rows that were not published are still in the outbox
			after, size = 0, min(firstBatch, s.opt.Batch)
			failures++
			pause.For(ctx, retry.Connection.After(failures))
			continue
		}
		failures = 0
		wake, more := s.wake, chan struct{}(nil)
		if len(rows) == limit { // there may be more
			size = min(2*size, s.opt.Batch)
			wake, more = nil, always
		}
		for waiting := true; waiting; {
			waiting = false
			select {
			case <-ctx.Done():
			case <-more:
			case <-wake:
				after = late.woken(s.clock.Now(), after)
			case <-late.timer.C:
				after = late.from(s.clock.Now(), after)
			case <-poll.C:
				waiting = reread.Swap(false)
			case <-again.C:
				waiting = true
				last, size := after, size
				rereading.Go(func() {
					took, ended := p.fromFirst(ctx, last, size)
					if ended {
						reread.Store(true)
					} else {
						s.wakeUp()
					}
					again.Reset(pause.Rest(took, s.opt.Interval))
				})
			}
		}
	}
}

// always is a channel that is closed.
var always = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// fromFirst publishes rows that committed late. It reads the outbox, in pages of a size, from the
// first row to the last one that was read before. It returns how long the reads took, and whether
// there is no row behind that one, so that the head need not be read for a while. While another
// transaction holds a snapshot on PostgreSQL, the reads step over all rows that were deleted
// meanwhile. So the head is read at the same time.
func (p *pipeline) fromFirst(ctx context.Context, last int64, size int) (took time.Duration, ended bool) {
	for after := int64(0); ; {
		began := p.clock.Now()
		rows, taken, err := p.read(true, func() ([]Row, error) { return p.table.Head(ctx, after, size) })
		took += p.clock.Now().Sub(began)
		if err != nil || len(rows) == 0 { // the next read of the head reports why the database does not answer
			return took, err == nil
		}
		p.send(taken)
		if after = rows[len(rows)-1].Seq; after >= last || len(rows) < size {
			return took, after <= last && len(rows) < size
		}
	}
}

// pauseAfter waits after an error of the table. A fatal error ends run.
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

// A tableRead is a read of the table that is under way. It may still return rows that
// were settled after it began.
type tableRead struct {
	began   time.Time
	again   bool               // it begins at the first row, while another read goes on behind it
	settled map[Place]struct{} // rows that were settled after it began
}

// read reads rows of the table. Of these it returns the rows to be published, which are
// neither in flight nor settled meanwhile, and notes that they are in flight.
func (s *sender) read(again bool, from func() ([]Row, error)) (rows, taken []Row, err error) {
	r := &tableRead{began: s.clock.Now(), again: again, settled: make(map[Place]struct{})}
	s.mu.Lock()
	s.readings[r] = struct{}{}
	s.mu.Unlock()
	rows, err = from()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readings, r)
	if len(s.inFlight) == 0 {
		s.landed = s.clock.Now()
	}
	if err != nil { // rows that were read before it are read again
		return nil, nil, err
	}
	for _, row := range rows {
		_, inFlight := s.inFlight[row.Place]
		_, settled := r.settled[row.Place]
		if !inFlight && !settled {
			s.inFlight[row.Place] = struct{}{}
			taken = append(taken, row)
		}
	}
	return rows, taken, nil
}

// land notes that rows are no longer in flight. Other deferred rows may be due for which a search
// had no room, since it found these.
func (s *sender) land(rows ...Place) {
	if slices.ContainsFunc(rows, func(p Place) bool { return p.Deferred }) {
		defer notify(s.retry)
	}
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

// refused counts a refusal of a row by the broker, and returns how many there were. An
// attempt may also fail for other reasons, so the row has more attempts. The counts are
// lost with a restart: then the broker is asked as often again.
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

// left reports whether there are rows at the head. If there are none it returns deferred rows,
// at most limit. If the table can't be read, it reports that there are rows, since there may be.
func (s *sender) left(ctx context.Context, limit int) (head bool, deferred []Row) {
	rows, err := s.table.Head(ctx, 0, 1)
	if err == nil && len(rows) == 0 {
		deferred, err = s.table.Deferred(ctx, never, "", limit, limit)
	}
	return err != nil || len(rows) > 0, deferred
}

// awaitedAttempts is the most failures of a deferred row that a stop waits for. A row
// that failed more often has failed for some ten seconds, by [retry.Publish].
const awaitedAttempts = 8

// awaited reports whether rows are left that a stop should wait for: rows at the head, and
// deferred ones that have not failed for long, were not refused by the broker, and that no
// handler wants later.
func (s *sender) awaited(ctx context.Context) bool {
	head, deferred := s.left(ctx, s.opt.Batch)
	s.mu.Lock()
	defer s.mu.Unlock()
	return head || slices.ContainsFunc(deferred, func(r Row) bool {
		return !strings.HasPrefix(r.Destination, Snoozed) && r.Attempts <= awaitedAttempts && s.destinations.get(r.Destination).failures <= awaitedAttempts && s.refusals[r.Seq] == 0
	})
}

// drainAbandoned waits until a table that another instance has abandoned is empty, or ctx
// is done. It returns earlier if only deferred rows are left, each has been tried for a turn,
// and full says that the instance may own no further table.
func (s *sender) drainAbandoned(ctx context.Context, full func() bool) {
	for began := s.clock.Now(); ; {
		wait, asked := retryInterval, s.clock.Now()
		switch head, deferred := s.left(ctx, 1); {
		case head:
			s.wakeUp()
			wait = pause.Rest(s.clock.Now().Sub(asked), drainPause)
		case len(deferred) == 0, full() && s.clock.Now().Sub(began).Abs() >= turn:
			return
		}
		if !pause.For(ctx, wait) {
			return
		}
	}
}

// rereadInterval is the least time between two rereads. A reread finds a row that commits
// up to this time after rows with higher numbers.
const rereadInterval = 50 * time.Millisecond

// A rereadState says from which row a sender reads again. Several transactions append to a
// shard at once, so a row may commit, and wake the sender, after the sender has read rows
// with higher numbers. After such a wake the sender reads again the rows of at least the
// last 50 ms: at once, or 50 ms after the last reread. It does not publish again the rows
// that are still in flight.
type rereadState struct {
	on    bool        // several transactions append at once
	timer *time.Timer // fires when the next reread begins
	last  time.Time   // when the last reread began
	newer int64       // the last row that had been read when the last reread began
	older int64       // the same of the reread before it
}

func newRereads(on bool) *rereadState {
	r := &rereadState{on: on, timer: time.NewTimer(0)}
	r.timer.Stop()
	return r
}

// woken returns the row behind which the sender reads after it was woken: an earlier one than the
// last row read if it rereads now.
func (r *rereadState) woken(now time.Time, after int64) int64 {
	if !r.on {
		return after
	}
	wait := rereadInterval - now.Sub(r.last)
	if wait <= 0 || wait > rereadInterval { // the clock may be set back
		return r.from(now, after)
	}
	r.timer.Reset(wait)
	return after
}

// from returns the row behind which a reread begins; after is the last row read.
func (r *rereadState) from(now time.Time, after int64) int64 {
	r.timer.Stop()
	from := min(r.older, after)
	r.last, r.older, r.newer = now, r.newer, after
	return from
}
