package nats

import (
	"context"
	"sync"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// maxLooks is how many messages are looked up at once.
const maxLooks = 32

// A claim is a message that was not stored, since the stream knows its id
// already: that of another message, or of itself, when it was sent before.
type claim struct {
	message  *natsgo.Msg
	sequence uint64 // of the message that has the id
}

// contest publishes messages again, without an id, unless what has their id was
// published to their own subject. The ids of events and dead letters follow from
// what is no secret, and a stream knows an id whatever the subject: whoever may
// publish commands could claim the ids of events to come, which would be lost.
//
// What can't be looked at is published again, too: twice is better than never.
func (p publisher) contest(ctx context.Context, s *session, claims []claim, failed *failures) {
	if p.opt.Client {
		return
	}
	var mu sync.Mutex
	var looks errgroup.Group
	looks.SetLimit(maxLooks)
	for _, c := range claims {
		looks.Go(func() error {
			if p.subjectAt(ctx, s, c.sequence) == c.message.Subject {
				return nil // it is the very message
			}
			c.message.Header.Del(natsgo.MsgIdHdr)
			if _, err := s.js.PublishMsg(ctx, c.message, jetstream.WithRetryAttempts(0)); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed.add(1, refusal(err))
			}
			return nil
		})
	}
	_ = looks.Wait()
}

// subjectAt returns the subject of a message of the stream, or "" if it can't be
// told.
func (p publisher) subjectAt(ctx context.Context, s *session, sequence uint64) string {
	m, err := p.get(ctx, s, getRequest{Sequence: sequence})
	if err != nil {
		return ""
	}
	return m.Subject
}
