package admin

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/timer"
)

// visitTimeout is how long reading the dead letters of a broker may take.
const visitTimeout = 10 * time.Second

// pageTimeouts are the timeouts of pages that take longer than [readTimeout].
var pageTimeouts = map[string]time.Duration{"/dead-letters": visitTimeout, "/do/{deed}": visitTimeout}

// errFull ends a visit.
var errFull = errors.New("the page is full")

// deadLetters returns a page of the dead letters that fit a filter, oldest first, after the
// one with an id. next is the id after which the next page begins, or "" if there is none. A
// slow broker may end a page early.
func (a *actions) deadLetters(ctx context.Context, f deadletter.Filter, after string, limit int) (page []deadletter.Message, next string, err error) {
	some := false
	err = a.visit(ctx, func(ctx context.Context, s *deadletter.Service) error {
		behind := after == ""
		_, err := s.List(ctx, f, func(m deadletter.Message) error {
			some = true
			switch {
			case !behind:
				behind = m.ID == after
				return nil
			case len(page) == limit:
				return errFull
			}
			page = append(page, m)
			return nil
		})
		if err == nil && !behind {
			return huma.Error404NotFound("the dead letter of after is gone: begin again with the first page")
		}
		return err
	})
	if len(page) > 0 && (errors.Is(err, errFull) || errors.Is(err, context.DeadlineExceeded)) {
		return page, page[len(page)-1].ID, nil
	}
	if some && errors.Is(err, context.DeadlineExceeded) { // the broker was too slow to get to after
		return nil, "", errManyDeadLetters
	}
	return page, "", err
}

// deadLetter returns the dead letter of a tenant with an id.
func (a *actions) deadLetter(ctx context.Context, tenant timer.TenantID, id string) (deadletter.Message, error) {
	found, _, err := a.deadLetters(ctx, selection{Tenant: tenant, ID: id}.letters(), "", 1)
	if err == nil && len(found) == 0 {
		err = errNoDeadLetter
	}
	return append(found, deadletter.Message{})[0], err
}

// visit calls do with the dead letters, until the deadline. The token of a tenant has one
// visit at a time, so that others can visit too.
func (a *actions) visit(ctx context.Context, do func(context.Context, *deadletter.Service) error) error {
	if a.broker == nil {
		return errNoBroker
	}
	end, refused := a.visits.begin(accessOf(ctx).tenant)
	if refused != nil {
		return refused
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, visitTimeout)
	defer cancel()
	err := do(ctx, deadletter.New(a.broker))
	if code, _ := explain(err); err == nil || code != 0 || errors.Is(err, errFull) {
		return err
	}
	a.log.WarnContext(ctx, "dead letters were not read", "error", err)
	return errors.Join(errBrokerSilent, err)
}
