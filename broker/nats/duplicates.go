package nats

import (
	"context"

	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// maxLookUps is how many messages are looked up at once.
const maxLookUps = 32

// A duplicate is a message that was not stored, since the stream has a message with its
// id: a different message, or this one, sent before.
type duplicate struct {
	outgoing
	sequence uint64 // sequence of the stored message with that id
}

// verifyDuplicates publishes duplicates again, without an id, unless the stored message
// with their id was published to the same subject. Anyone can compute the ids of events
// and dead letters, and a stream compares ids whatever the subject. So a producer of
// commands could otherwise claim the ids of future events, and they would be lost.
//
// If the stored message can't be looked up its duplicate is published again: two copies
// are better than none.
func (p publisher) verifyDuplicates(ctx context.Context, s *session, duplicates []duplicate) {
	if p.opt.Client || len(duplicates) == 0 {
		return
	}
	foreign := make([]bool, len(duplicates))
	var lookUps errgroup.Group
	lookUps.SetLimit(maxLookUps)
	for i, d := range duplicates {
		lookUps.Go(func() error {
			m, err := p.get(ctx, s, getRequest{Sequence: d.sequence})
			foreign[i] = err != nil || m.Subject != d.Subject
			return nil
		})
	}
	_ = lookUps.Wait()
	var again []outgoing
	for i, d := range duplicates {
		if foreign[i] {
			d.Header.Del(natsgo.MsgIdHdr)
			again = append(again, d.outgoing)
		}
	}
	p.send(ctx, s, again)
}
