package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// Acked rows are deleted together: those of one flush interval, up to a number. A
// timer that fires alone then costs two commits, not three.
const (
	flushInterval = 50 * time.Millisecond
	maxFlush      = 4096
)

// An outcome is what became of a batch.
type outcome struct {
	acked    []int64
	gone     []int64 // were handled, and deleted by that
	deferred []Deferral
	parked   []refusal
	unsent   []int64 // the broker was unavailable
	reason   error   // of the unsent
	handled  bool    // deferred is by a handler in this process
}

// A refusal is a row that failed for the last time.
type refusal struct {
	row     Row
	err     error
	handled bool // by a handler in this process, not by the broker
}

// settlePublished settles what the head has published until there is no more.
func (s *sender) settlePublished() {
	for o := range s.published {
		flush := time.NewTimer(flushInterval)
		for open := true; open && len(o.acked)+len(o.gone)+len(o.deferred) < maxFlush; {
			select {
			case more, ok := <-s.published:
				o.acked, o.gone = append(o.acked, more.acked...), append(o.gone, more.gone...)
				o.deferred, o.parked = append(o.deferred, more.deferred...), append(o.parked, more.parked...)
				open = ok
			case <-flush.C:
				open = false
			}
		}
		flush.Stop()
		s.settle(o)
	}
}

// settle changes the table as an outcome says. Rows that were acked are deleted however
// long that takes, so that none is published again because of an error of the table. Rows
// that can't be moved stay where they are, and delay no other.
func (s *sender) settle(o outcome) {
	if len(o.acked) > 0 && s.untilDone(func(ctx context.Context) error { return s.table.Delete(ctx, o.acked...) }) {
		failpoint.Here("deleted")
		s.forget(o.acked...)
		s.land(o.acked...)
	}
	if len(o.gone) > 0 {
		s.land(o.gone...)
	}
	if len(o.deferred) > 0 {
		seqs := make([]int64, len(o.deferred))
		for i, d := range o.deferred {
			seqs[i] = d.Seq
		}
		if s.move(seqs, func(ctx context.Context) error { return s.table.Defer(ctx, o.deferred...) }) {
			notify(s.retry)
		}
	}
	for _, p := range o.parked {
		now, reason := s.clock.Now(), p.err.Error()
		if !s.move([]int64{p.row.Seq}, func(ctx context.Context) error { return s.table.Park(ctx, now, p.row.Seq, reason) }) {
			continue
		}
		s.forget(p.row.Seq)
		s.opt.Parked(p.row.Message, reason)
		if s.opt.Settled != nil {
			s.opt.Settled(now, s.topic(p.row.Message), p.row, p.err)
		}
		ctx := timer.WithTrace(s.settling, envelope.TraceFrom(p.row.Message.Metadata.Get))
		attrs := []any{"seq", p.row.Seq, "event_id", p.row.Message.UUID, "attempts", p.row.Attempts + 1, "error", p.err}
		if p.handled {
			s.log.ErrorContext(ctx, "event parked: its handler failed for the last time; see the table timer_outbox_parked", attrs...)
			continue
		}
		s.log.ErrorContext(ctx, "event parked: the broker refuses it; see the table timer_outbox_parked", attrs...)
	}
}

// unmovedFor is how long rows that could not be moved are left alone.
const unmovedFor = 5 * time.Second

// move takes rows out of the head of the table, and reports whether that worked. If not,
// they are read and published again later, since they failed.
func (s *sender) move(seqs []int64, change func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(s.settling, tableTimeout)
	defer cancel()
	err := change(ctx)
	if s.settling.Err() == nil && s.unmoved.note(s.clock.Now(), err) {
		s.log.ErrorContext(ctx, "events that failed can't be deferred or parked, and stay where they are", "events", len(seqs), "error", err)
	}
	switch {
	case err == nil:
		s.land(seqs...)
		return true
	case errors.Is(err, timer.ErrFatal):
		s.fail(err)
	default:
		time.AfterFunc(unmovedFor, func() {
			s.land(seqs...)
			notify(s.retry)
		})
	}
	return false
}

// unmoved remembers why rows could not be moved.
type unmoved struct {
	mu         sync.Mutex
	err        error
	at, logged time.Time
}

// note notes how a move ended, and reports whether to log that.
func (u *unmoved) note(now time.Time, err error) bool {
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

// last returns the error of the last move, if that was within a minute.
func (u *unmoved) last(now time.Time) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.at).Abs() > time.Minute {
		return nil
	}
	return u.err
}

// untilDone changes the table until that works. It returns false if the error is
// fatal, or the time of a stop is over.
func (s *sender) untilDone(change func(context.Context) error) bool {
	for failures := (backoff{}); ; {
		ctx, cancel := context.WithTimeout(s.settling, tableTimeout)
		err := change(ctx)
		cancel()
		if err == nil {
			return true
		}
		s.pauseAfter(s.settling, &failures, err)
		if s.settling.Err() != nil || errors.Is(err, timer.ErrFatal) {
			return false
		}
	}
}
