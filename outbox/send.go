package outbox

import (
	"context"
	"errors"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/timer"
)

// maxTopics is how many topics are published to at the same time.
const maxTopics = 64

// send publishes rows, each topic in order. It returns the numbers of those that
// the broker has acked, the topics that it did not get through to, and the errors
// of all that is left. It is not torn apart when ctx ends.
func (s *session) send(ctx context.Context, rows []Row) (acked []int64, failed []string, err error) {
	if pub, ok := s.pub.(MultiPublisher); ok && s.sendAll(pub, rows) == nil {
		acked = make([]int64, len(rows))
		for i, row := range rows {
			acked[i] = row.Seq
		}
		return acked, nil, nil
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
func (s *session) sendByTopic(ctx context.Context, rows []Row) (acked []int64, failed []string, err error) {
	var topics errgroup.Group
	topics.SetLimit(maxTopics)
	var mu sync.Mutex
	for topic, rows := range s.byTopic(rows) {
		topics.Go(func() error {
			t := s.sendTopic(ctx, topic, rows)
			mu.Lock()
			defer mu.Unlock()
			acked = append(acked, t.acked...)
			if t.failed != nil {
				failed = append(failed, topic)
			}
			err = errors.Join(err, t.err())
			return nil
		})
	}
	_ = topics.Wait()
	return acked, failed, err
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
// where the broker knows them by their id. It ends at the first that fails.
func (s *session) sendTopic(ctx context.Context, topic string, rows []Row) attempt {
	t := attempt{topic: topic}
	messages := make([]*message.Message, len(rows))
	for i, row := range rows {
		messages[i] = row.Message
	}
	err := s.pub.Publish(topic, messages...)
	switch {
	case err == nil:
		for _, row := range rows {
			t.acked = append(t.acked, row.Seq)
		}
	case !errors.Is(err, timer.ErrInvalid):
		t.failed = err
	case len(rows) == 1:
		t.refused = errors.Join(err, s.refuse(ctx, rows[0], err))
	default:
		for i := 0; i < len(rows) && t.failed == nil; i++ {
			one := s.sendTopic(ctx, topic, rows[i:i+1])
			t.acked = append(t.acked, one.acked...)
			t.refused = errors.Join(t.refused, one.refused)
			t.failed = one.failed
		}
	}
	return t
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
