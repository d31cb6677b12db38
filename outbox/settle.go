package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// Acked rows of one flush interval are deleted together, up to a number. A timer that fires
// alone then costs two commits instead of three.
const (
	flushInterval = 50 * time.Millisecond
	maxFlush      = 4096
)

// An outcome says what becomes of the rows of a batch.
type outcome struct {
	acked    []Place
	gone     []Place // a handler has deleted them in its transaction
	deferred []Deferral
	first    *message.Message // the first deferred event, for the log; nil if it can't be read
	parked   []refusal
	unsent   []Place // the broker was unavailable
	reason   error   // of the unsent
	handled  bool    // a handler in this process had the deferred rows, not the broker
}

// A refusal is a row that failed for the last time.
type refusal struct {
	row     Row
	err     error
	handled bool // a handler in this process refused it, not the broker
}

// settlePublished settles the outcomes of the head until the channel is closed.
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

// settle changes the table as an outcome says.
func (s *sender) settle(o outcome) {
	if len(o.acked) > 0 && s.change(o.acked, func(ctx context.Context) error { return s.table.Delete(ctx, o.acked...) }) {
		failpoint.Here("deleted")
		s.forget(o.acked...)
	}
	if len(o.gone) > 0 {
		s.land(o.gone...)
	}
	if len(o.deferred) > 0 {
		rows := make([]Place, len(o.deferred))
		for i, d := range o.deferred {
			rows[i] = d.Place
		}
		if s.change(rows, func(ctx context.Context) error { return s.table.Defer(ctx, o.deferred...) }) {
			notify(s.retry)
		}
	}
	for _, p := range o.parked {
		s.park(p)
	}
}

// park parks a row that failed for the last time, and says so.
func (s *sender) park(p refusal) {
	now, reason := s.clock.Now(), readable(p.err)
	if !s.change([]Place{p.row.Place}, func(ctx context.Context) error { return s.table.Park(ctx, now, p.row.Place, reason) }) {
		return
	}
	s.forget(p.row.Place)
	s.opt.Settled(now, s.topic(p.row.Message), p.row, p.err)
	said := "event parked: the broker refuses it; see the table timer_outbox_parked"
	if p.handled {
		said = "event parked: its handler failed for the last time; see the table timer_outbox_parked"
	}
	ctx := timer.WithTrace(s.settling, envelope.TraceFrom(p.row.Message.Metadata.Get))
	s.log.ErrorContext(ctx, said, about(p.row.Message, "seq", p.row.Seq, "attempts", p.row.Attempts+1, "error", reason)...)
}

// change tries a change of the table until it works, so that no row is published again since
// the table failed. Then its rows are no longer in flight. It returns false if a stop gives
// the table no more time, or if the error is fatal.
func (s *sender) change(rows []Place, change func(context.Context) error) bool {
	for failures := 0; ; {
		ctx, cancel := context.WithTimeout(s.settling, tableTimeout)
		err := change(ctx)
		cancel()
		switch {
		case err == nil:
			s.land(rows...)
			return true
		case errors.Is(err, timer.ErrFatal):
			s.fail(err)
			return false
		case s.settling.Err() != nil:
			return false
		}
		s.pauseAfter(s.settling, &failures, err)
	}
}
