package nats

import (
	"context"

	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// maxLookUps is how many messages are looked up at once.
const maxLookUps = 32

// A duplicate is a message that was not stored, since the stream has one with its
// id: another message, or this one, when it was sent before.
type duplicate struct {
	outgoing
	sequence uint64 // of the message that has the id
}

// verifyDuplicates publishes duplicates again, without an id, unless the message
// that has their id was published to their own subject. The ids of events and dead
// letters follow from what is no secret, and a stream compares ids whatever the
// subject: a producer of commands could otherwise claim the ids of events to
// come, which would be lost.
//
// If a message can't be looked up its duplicate is published again: two copies are
// better than none.
func (p publisher) verifyDuplicates(ctx context.Context, s *session, known []duplicate) {
	if p.opt.Client || len(known) == 0 {
		return
	}
	foreign := make([]bool, len(known))
	var lookUps errgroup.Group
	lookUps.SetLimit(maxLookUps)
	for i, d := range known {
		lookUps.Go(func() error {
			m, err := p.get(ctx, s, getRequest{Sequence: d.sequence})
			foreign[i] = err != nil || m.Subject != d.Subject
			return nil
		})
	}
	_ = lookUps.Wait()
	var again []outgoing
	for i, d := range known {
		if foreign[i] {
			d.Header.Del(natsgo.MsgIdHdr)
			again = append(again, d.outgoing)
		}
	}
	p.send(ctx, s, again)
}
