package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// The acked rows of one flush interval are deleted in one transaction, up to maxFlush rows.
const (
	flushInterval = 50 * time.Millisecond
	maxFlush      = 4096
)

// An outcome is the result of rows at their destination: topics of the broker, or a handler.
type outcome struct {
	acked    []Place
	events   []*message.Message // of the acked
	unsent   []Place            // no longer in flight, and not settled either
	away     error              // why the broker, or the handler, could take nothing at all
	deferred []Deferral
	parked   []refusedRow
	handled  bool // the rows went to a handler of this process, not to the broker
}

// A refusedRow is a row that failed for the last time.
type refusedRow struct {
	row     Row
	err     error
	handler *Handler // the handler that refused it; nil: the broker did
}

// settlePublished settles the outcomes of the head until the channel is closed.
func (s *sender) settlePublished() {
	for o := range s.published {
		flush := time.NewTimer(flushInterval)
		for open := true; open && len(o.acked)+len(o.deferred) < maxFlush; {
			select {
			case more, ok := <-s.published:
				o.acked = append(o.acked, more.acked...)
				o.deferred, o.parked = append(o.deferred, more.deferred...), append(o.parked, more.parked...)
				open = ok
			case <-flush.C:
				open = false
			case <-s.flush:
				open = false
			}
		}
		flush.Stop()
		s.settle(o)
	}
}

// settle changes the table as an outcome says. Rows that can't be changed stay where they
// are, and delay no other rows.
func (s *sender) settle(o outcome) {
	if len(o.acked) > 0 {
		s.remove(o.acked, 1)
	}
	if len(o.deferred) > 0 {
		rows := make([]Place, len(o.deferred))
		for i, d := range o.deferred {
			rows[i] = d.Place
		}
		if s.move(rows, func(ctx context.Context) error { return s.table.Defer(ctx, o.deferred...) }) {
			notify(s.retry)
		}
	}
	for _, p := range o.parked {
		s.park(p)
	}
}

// park parks a row that failed for the last time. Of a tenant and handler the log names the first row of a
// minute, and counts the others.
func (s *sender) park(p refusedRow) {
	now, reason := s.clock.Now(), readable(p.err)
	if !s.move([]Place{p.row.Place}, func(ctx context.Context) error { return s.table.Park(ctx, now, p.row.Place, reason) }) {
		return
	}
	s.forget(p.row.Place)
	s.opt.Settled(now, s.topic(p.row.Message), p.row, p.err)
	kind := []any{"refused_by", "the broker"}
	if p.handler != nil {
		kind = []any{"refused_by", "its handler", "prefix", p.handler.Prefix}
	}
	named := about(p.row.Message, "seq", p.row.Seq, "attempts", p.row.Attempts+1, "error", reason)
	s.logs.parked.Note(1, append(kind, named[:2]...), named[2:]...)
}

// unmovedFor is the time after which rows that could not be moved are published again.
const unmovedFor = 5 * time.Second

// move takes rows that failed out of the head of the table, and reports whether that worked.
// If it did not, the rows are read and published again later.
func (s *sender) move(rows []Place, change func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(s.settling, tableTimeout)
	defer cancel()
	err := change(ctx)
	if s.settling.Err() == nil && s.unmoved.note(s.clock.Now(), err) {
		s.log.ErrorContext(ctx, "events that failed can't be deferred or parked, and stay where they are", "events", len(rows), "error", err)
	}
	switch {
	case err == nil:
		s.land(rows...)
		return true
	case errors.Is(err, timer.ErrFatal):
		s.fail(err)
	default:
		time.AfterFunc(unmovedFor, func() {
			s.land(rows...)
			notify(s.retry)
		})
	}
	return false
}

// A moveError remembers why rows could not be moved.
type moveError struct {
	mu         sync.Mutex
	err        error
	at, logged time.Time
}

// note notes the error of a move, or nil, and reports whether to log it.
func (u *moveError) note(now time.Time, err error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil {
		u.err = nil
		return false
	}
	u.err, u.at = err, now
	if now.Sub(u.logged).Abs() < reportInterval {
		return false
	}
	u.logged = now
	return true
}

// last returns the error of the last move that failed, if that was within a minute.
func (u *moveError) last(now time.Time) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.at).Abs() > time.Minute {
		return nil
	}
	return u.err
}

// maxKept is the most rows that wait to be deleted while others are published. If the process
// ends, the next one publishes them again.
const maxKept = 100

// remove deletes rows that were acked. It tries as long as it takes, so that no row is
// published again because of an error of the table. If it still fails after as many retries
// as more says, and the table can be read, the error may be about a single row. Then it
// deletes the rows in halves, and leaves a row that can't be deleted alone for a while,
// unless many such rows are left already.
func (s *sender) remove(rows []Place, more int) {
	for failures := 0; ; more-- {
		ctx, cancel := context.WithTimeout(s.settling, tableTimeout)
		err := s.table.Delete(ctx, rows...)
		cancel()
		switch {
		case err == nil:
			failpoint.Here("deleted")
			s.forget(rows...)
			s.land(rows...)
			return
		case errors.Is(err, timer.ErrFatal):
			s.fail(err)
			return
		case s.settling.Err() != nil:
			return
		case more > 0, !s.canRead():
		case len(rows) > 1:
			half := len(rows) / 2
			s.remove(rows[:half], 0)
			s.remove(rows[half:], 0)
			return
		case s.kept.Add(1) <= maxKept:
			if s.unmoved.note(s.clock.Now(), err) {
				s.log.ErrorContext(ctx, "an event that was published can't be deleted, and stays where it is", "seq", rows[0].Seq, "error", err)
			}
			time.AfterFunc(unmovedFor, func() {
				s.kept.Add(-1)
				s.remove(rows, 0)
			})
			return
		default:
			s.kept.Add(-1)
		}
		s.pauseAfter(s.settling, &failures, err)
	}
}

// canRead reports whether the table can be read.
func (s *sender) canRead() bool {
	ctx, cancel := context.WithTimeout(s.settling, tableTimeout)
	defer cancel()
	_, err := s.table.Head(ctx, 0, 1)
	return err == nil
}
