package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
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

// maxTopics is how many topics are published to at the same time.
const maxTopics = 64

// A session forwards until the broker or the store fails. It has two stages
// that overlap: one reads and publishes a batch while the other deletes the
// batch before.
type session struct {
	*Forwarder
	published chan []int64   // numbers of the rows that the broker has acked
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
// pass over it comes after a growing pause, also if there is no end of new rows,
// unless so many were left behind that new ones would wait for them. See [detour]
// for how those are found that work.
func (s *session) publish(ctx context.Context) error {
	var after int64 // the last row seen in this pass
	var left int    // rows that were left behind in this pass
	s.detour.begin()
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
				pass.Reset(backoff)
			}
			left += behind
		}
		if more {
			if left > s.opt.Batch || s.detour.failure != nil || !over(pass) {
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
			case <-pass.C:
			}
		}
		s.deleted() // else the new pass would publish again what is being deleted
		after = 0
		s.detour.clear()
		if left > 0 {
			left, backoff = 0, min(2*backoff, maxBackoff)
		} else {
			backoff = minBackoff
		}
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
	rows := batch
	if !head {
		rows = s.detour.open(batch, s.topic)
	}
	if len(rows) == 0 {
		return len(batch), s.detour.look()
	}
	acked, err := s.send(ctx, rows)
	if len(acked) > 0 {
		s.detour.begin()
		if head {
			s.detour.clear()
		}
		failpoint.Here("published")
		s.forwarded += len(acked)
		s.opt.Forwarded(len(acked))
		s.deleting.Add(1)
		s.published <- acked
	}
	left = len(batch) - len(acked)
	if err == nil {
		return left, nil
	}
	if len(acked) == 0 && !errors.Is(err, timer.ErrInvalid) {
		return left, s.detour.failed(rows, s.topic, err)
	}
	s.log.WarnContext(ctx, "events left behind, will retry", "rows", len(rows)-len(acked), "error", err)
	return left, nil
}

// send publishes rows, each topic in order. It returns the numbers of those that
// the broker has acked, and the errors of the others. It is not torn apart when
// ctx ends.
func (s *session) send(ctx context.Context, rows []Row) (acked []int64, err error) {
	if pub, ok := s.pub.(MultiPublisher); ok && s.sendAll(pub, rows) == nil {
		acked = make([]int64, len(rows))
		for i, row := range rows {
			acked[i] = row.Seq
		}
		return acked, nil
	}
	return s.sendByTopic(ctx, rows)
}

// sendAll publishes rows to all their topics in one go.
func (s *session) sendAll(pub MultiPublisher, rows []Row) error {
	topics, messages := make([]string, len(rows)), make([]*message.Message, len(rows))
	for i, row := range rows {
		topics[i], messages[i] = s.topic(row.Message), row.Message
	}
	return pub.PublishTo(topics, messages)
}

// sendByTopic publishes rows, all topics at once, so that one which fails does
// not hold up the others.
func (s *session) sendByTopic(ctx context.Context, rows []Row) (acked []int64, err error) {
	var topics errgroup.Group
	topics.SetLimit(maxTopics)
	var mu sync.Mutex
	for topic, rows := range s.byTopic(rows) {
		topics.Go(func() error {
			seqs, failed := s.sendTopic(ctx, topic, rows)
			mu.Lock()
			defer mu.Unlock()
			acked = append(acked, seqs...)
			err = errors.Join(err, failed)
			return nil
		})
	}
	_ = topics.Wait()
	return acked, err
}

func (s *session) byTopic(rows []Row) map[string][]Row {
	groups := make(map[string][]Row)
	for _, row := range rows {
		topic := s.topic(row.Message)
		groups[topic] = append(groups[topic], row)
	}
	return groups
}

// sendTopic publishes rows to one topic. If one of them is refused it finds out
// which, and publishes the others; some may have gone out with the first try,
// where the broker knows them by their id.
func (s *session) sendTopic(ctx context.Context, topic string, rows []Row) (acked []int64, err error) {
	messages := make([]*message.Message, len(rows))
	acked = make([]int64, len(rows))
	for i, row := range rows {
		messages[i], acked[i] = row.Message, row.Seq
	}
	err = s.pub.Publish(topic, messages...)
	if err == nil {
		return acked, nil
	}
	if !errors.Is(err, timer.ErrInvalid) {
		return nil, err
	}
	if len(rows) == 1 {
		return nil, errors.Join(err, s.refuse(ctx, rows[0], err))
	}
	acked, err = acked[:0], nil
	for _, row := range rows {
		seqs, failed := s.sendTopic(ctx, topic, []Row{row})
		acked = append(acked, seqs...)
		err = errors.Join(err, failed)
	}
	return acked, err
}

// refuse counts an attempt of a row that the broker refused, and parks the row
// after its last one.
func (s *session) refuse(ctx context.Context, row Row, reason error) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	if row.Attempts+1 < s.opt.MaxAttempts {
		return s.table.Fail(ctx, row.Seq, reason.Error())
	}
	if err := s.table.Park(ctx, s.clock.Now(), row.Seq, reason.Error()); err != nil {
		return err
	}
	s.opt.Parked(reason.Error())
	s.log.ErrorContext(ctx, "event parked: the broker refuses it; see the parked events of the outbox",
		"seq", row.Seq, "event_id", row.Message.UUID, "attempts", row.Attempts+1, "error", reason)
	return nil
}
