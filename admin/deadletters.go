package admin

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/broker/deadletter"
)

// visitTimeout is how long reading the dead letters of a broker may take.
const visitTimeout = 10 * time.Second

// maxBodies is how many bytes the bodies on a page of dead letters have, so that it fits into an
// answer that a client reads as a whole, and into memory a few times.
const maxBodies = 2 << 20

// pageTimeouts are the timeouts of pages that take longer than [readTimeout].
var pageTimeouts = map[string]time.Duration{"/dead-letters": visitTimeout, "/do/{deed}": visitTimeout}

// deadLetters returns a page of the dead letters that fit a filter, oldest first, behind the one
// that after names. next is after of the next page, or "" if there is none. A slow broker, and
// large bodies, may end a page early.
func (a *actions) deadLetters(ctx context.Context, f deadletter.Filter, after string, limit int) (page []deadletter.Message, next string, err error) {
	f.After, f.Limit, f.Bytes = after, limit, maxBodies
	err = a.visit(ctx, func(ctx context.Context, s *deadletter.Service) error {
		sum, err := s.List(ctx, f, func(m deadletter.Message) error {
			page = append(page, m)
			return nil
		})
		next = sum.Next
		return inPart(f, sum, err)
	})
	return page, next, err
}

// inPart returns nil if there was no time for all of a call, but for a part: the next call goes
// on. Other errors stay.
func inPart(f deadletter.Filter, sum deadletter.Summary, err error) error {
	switch {
	case errors.Is(err, deadletter.ErrGone):
		return huma.Error404NotFound(err.Error())
	case !errors.Is(err, context.DeadlineExceeded) || sum.Seen == 0:
		return err
	case sum.Next == f.After: // the broker was too slow to get there
		return errManyDeadLetters
	}
	return nil
}

// visit calls do with the dead letters, until the deadline. The token of a tenant has one
// visit at a time, so that others can visit too.
func (a *actions) visit(ctx context.Context, do func(context.Context, *deadletter.Service) error) error {
	if a.Broker == nil {
		return errNoBroker
	}
	end, refused := a.visits.begin(accessOf(ctx).tenant)
	if refused != nil {
		return refused
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	err := do(ctx, deadletter.New(a.Broker))
	if err == nil || explain(err) != nil {
		return err
	}
	a.log.WarnContext(ctx, "dead letters were not read", "error", err)
	return errors.Join(errBrokerSilent, err)
}
