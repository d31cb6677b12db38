package outbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// firstBatch is how many rows a session begins with; it doubles up to the batch.
// A process that is killed again and again then gets somewhere in each life: the
// rows that it has published are deleted before many more are.
const firstBatch = 64

// Rows are deleted together that are published within a time, up to a number.
const (
	linger      = 50 * time.Millisecond
	maxGathered = 4096
)

// perLeft is added to the pause before a new pass for each row that the last one
// left behind, some ten times of what it takes to read it again.
const perLeft = 50 * time.Microsecond

// A session forwards until the broker or the store fails. It has two stages
// that overlap: one reads and publishes a batch while the other deletes the
// batch before.
type session struct {
	*Forwarder
	published chan []int64   // numbers of the rows that the broker has acked
	tried     chan attempt   // results for topics that are aside
	hurry     chan struct{}  // holds one: somebody waits until they are deleted
	deleting  sync.WaitGroup // batches published but not deleted yet
	forwarded int            // rows that the broker has acked in the session
}

// run returns nil once ctx is done and all that was published is deleted.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	ended := make(chan error, 1)
	go func() { ended <- s.delete(ctx, cancel) }()
	err := s.publish(ctx)
	cancel()
	for s.aside.trying > 0 {
		s.settle(ctx, <-s.tried)
	}
	close(s.published)
	return errors.Join(<-ended, err)
}

// delete removes batches until there are no more, also after ctx is done. After
// an error it ends the session and lets go of the rest: they are published
// again.
func (s *session) delete(ctx context.Context, end context.CancelFunc) (failed error) {
	for seqs := range s.published {
		seqs, batches := s.gather(seqs)
		if failed == nil {
			if failed = s.remove(ctx, seqs); failed != nil {
				end()
			}
		}
		s.deleting.Add(-batches)
	}
	return failed
}

// gather adds to a batch those that are published within a moment. A timer that
// fires alone then costs two commits, not three. What a crash in that moment
// leaves behind is published again.
func (s *session) gather(seqs []int64) (_ []int64, batches int) {
	moment := time.NewTimer(linger)
	defer moment.Stop()
	for batches = 1; len(seqs) < maxGathered; batches++ {
		select {
		case more, ok := <-s.published:
			if !ok {
				return seqs, batches
			}
			seqs = append(seqs, more...)
		case <-s.hurry:
			return seqs, batches
		case <-moment.C:
			return seqs, batches
		}
	}
	return seqs, batches
}

func (s *session) remove(ctx context.Context, seqs []int64) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	err := s.table.Delete(ctx, seqs...)
	failpoint.Here("deleted")
	return err
}

// publish passes over the outbox again and again, from the oldest row to the
// newest, and waits at the end of each pass. It returns nil if ctx ended, else
// why nothing gets through.
//
// A row that is left behind because the broker refuses it, or because its
// topic fails while others work, delays nobody: the pass goes on, and the next
// pass over it comes after a growing pause, also if there is no end of new rows.
// The pause is longer if many were left behind, since new ones wait until those
// are read. See [detour] for how topics are found that work, and [aside] for what
// becomes of the others.
func (s *session) publish(ctx context.Context) error {
	var after int64      // the last row seen in this pass
	var left, before int // rows that were left behind in this pass, and in the one before
	s.detour.begin()
	s.aside.begin()
	size := min(firstBatch, s.opt.Batch)
	backoff := minBackoff
	pass := time.NewTimer(s.opt.Interval) // when to begin again from the oldest row
	defer pass.Stop()

	for ctx.Err() == nil {
		told := s.backlog.told()
		rows, err := s.table.Head(ctx, after, size)
		if err != nil {
			return err
		}
		s.backlog.saw(rows, told, len(rows) < size)
		more := false
		if len(rows) > 0 {
			head := after == 0
			after = rows[len(rows)-1].Seq
			more = len(rows) == size // else those appended since have woken us
			size = min(2*size, s.opt.Batch)
			behind, err := s.forward(ctx, rows, head)
			if head && s.detour.failure != nil {
				after = max(after, s.detour.from)
			}
			if err != nil {
				s.detour.from = after
				return err
			}
			if behind > 0 && left == 0 {
				pass.Reset(backoff + time.Duration(before)*perLeft)
			}
			left += behind
		}
		if more {
			s.settleAll(ctx)
			if s.detour.failure != nil || !s.aside.back && !over(pass) {
				continue
			}
		} else {
			if err := s.detour.end(); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-s.wake: // new rows come after the last one seen
				continue
			case t := <-s.tried:
				if s.settle(ctx, t); !s.aside.back {
					continue
				}
			case <-pass.C:
			}
		}
		s.deleted() // else the new pass would publish again what is being deleted
		after = 0
		s.detour.clear()
		s.aside.begin()
		if left > 0 {
			backoff = min(2*backoff, maxBackoff)
		} else {
			backoff = minBackoff
		}
		left, before = 0, left
		pass.Reset(s.opt.Interval)
	}
	return nil
}

// over reports whether the time of a pass is over.
func over(pass *time.Timer) bool {
	select {
	case <-pass.C:
		return true
	default:
		return false
	}
}

// deleted waits until all that was published is deleted, or is not going to be.
func (s *session) deleted() {
	select {
	case s.hurry <- struct{}{}:
	default:
	}
	s.deleting.Wait()
}

// forward publishes rows and hands those that the broker acked to the deleting
// stage. It returns how many are left behind; an error means that nothing gets
// through. Behind the oldest rows, the head, those of topics that failed are
// left alone.
func (s *session) forward(ctx context.Context, batch []Row, head bool) (left int, err error) {
	rows, apart := s.aside.split(batch, s.topic)
	for topic, rows := range apart {
		go func() { s.tried <- s.insist(ctx, topic, rows) }()
	}
	if !head {
		rows = s.detour.open(rows, s.topic)
	}
	if len(rows) == 0 {
		return len(batch), s.detour.look()
	}
	acked, failed, err := s.send(ctx, rows)
	left = len(batch) - len(acked)
	if len(acked) > 0 {
		if head {
			s.detour.clear()
		}
		s.aside.add(slices.Values(failed)) // they fail, and the broker works
		s.aside.add(maps.Keys(s.detour.topics))
		s.detour.begin()
		s.acked(acked)
	} else if len(failed) > 0 {
		return left, s.detour.failed(failed, err)
	}
	if err != nil {
		s.log.WarnContext(ctx, "events left behind, will retry", "rows", len(rows)-len(acked), "error", err)
	}
	return left, nil
}

// acked hands rows to the deleting stage.
func (s *session) acked(seqs []int64) {
	if len(seqs) == 0 {
		return
	}
	failpoint.Here("published")
	s.forwarded += len(seqs)
	s.opt.Forwarded(len(seqs))
	s.deleting.Add(1)
	s.published <- seqs
}

// insist publishes rows to a topic that is aside. While nothing gets through it
// tries again after a growing pause.
func (s *session) insist(ctx context.Context, topic string, rows []Row) attempt {
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		t := s.sendTopic(ctx, topic, rows)
		if t.failed == nil || t.refused != nil || len(t.acked) > 0 {
			return t
		}
		s.log.WarnContext(ctx, "a topic fails where others work, will retry", "topic", topic, "rows", len(rows), "error", t.failed, "retry_in", backoff)
		if !pause.For(ctx, backoff) {
			return t
		}
	}
}

// settle notes the end of a try.
func (s *session) settle(ctx context.Context, t attempt) {
	s.aside.settle(t)
	s.acked(t.acked)
	if err := t.err(); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "events left behind, will retry", "topic", t.topic, "error", err)
	}
}

// settleAll notes the tries that have ended.
func (s *session) settleAll(ctx context.Context) {
	for s.aside.trying > 0 {
		select {
		case t := <-s.tried:
			s.settle(ctx, t)
		default:
			return
		}
	}
}
