package admin

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	shownRefused = 100 // dead letters that an answer names
	parkedBatch  = 200 // events that are changed at once, so that timers get their turn
)

type (
	// A removal replays or discards dead letters.
	removal func(*deadletter.Service, context.Context, deadletter.Filter, func(deadletter.Result)) (deadletter.Summary, error)

	// A bulk is one part of a deed that changes all of a selection.
	bulk func(ctx context.Context, a *actions, s selection) (text string, err error)
)

// bulkDeed returns a deed that changes all of a selection.
func bulkDeed(d deed, found, do bulk) deed {
	on := func(work bulk) func(context.Context, *actions, timer.TenantID, string) (string, error) {
		return func(ctx context.Context, a *actions, _ timer.TenantID, filter string) (string, error) {
			s, err := selected(ctx, filter)
			if err != nil {
				return "", err
			}
			text, err := work(ctx, a, s)
			if errors.Is(err, errMore) {
				text += "\nNot all: ask again."
			}
			return text, err
		}
	}
	d.Of, d.found, d.do = "filter", on(found), on(do)
	return d
}

// lettersDeed returns a deed that changes all dead letters of a selection.
func lettersDeed(d deed, what, did string, work removal) deed {
	d.Back = "/dead-letters"
	return bulkDeed(d, func(ctx context.Context, a *actions, s selection) (text string, err error) {
		err = a.visit(ctx, func(ctx context.Context, letters *deadletter.Service) error {
			sum, err := letters.List(ctx, s.letters(), func(deadletter.Message) error { return nil })
			if text = count(int64(sum.Done), "dead letter") + " " + s.String() + "."; err != nil && sum.Done > 0 {
				text, err = "At least "+text, nil
			}
			return err
		})
		return text, a.visitFailed(ctx, err)
	}, func(ctx context.Context, a *actions, s selection) (text string, err error) {
		var refused []string
		err = a.do(ctx, what, s.Tenant, s.String(), func() (string, error) {
			var done int
			done, refused, err = a.removeAll(ctx, s, work)
			text = count(int64(done), "dead letter") + " " + did + ", " + num(int64(len(refused))) + " refused."
			return text, a.visitFailed(ctx, partly(done, err))
		})
		return strings.Join(append([]string{text}, refused[:min(len(refused), shownRefused)]...), "\n"), err
	})
}

// parkedDeed returns a deed that changes all parked events of a selection.
func parkedDeed(d deed, what, did string, change func(*actions) func(context.Context, ...int64) (int, error)) deed {
	d.Back, d.Service = "/parked", true
	return bulkDeed(d, func(ctx context.Context, a *actions, s selection) (string, error) {
		seqs, err := a.seqs(ctx, s)
		return count(int64(len(seqs)), "parked event") + " " + s.String() + ".", err
	}, func(ctx context.Context, a *actions, s selection) (text string, err error) {
		err = a.operate(ctx, what, s.Tenant, s.String(), func(ctx context.Context) (string, error) {
			// The numbers are read before any event is changed, since an event that is
			// refused again is parked again.
			seqs, err := a.seqs(ctx, s)
			n, done := 0, 0
			for part := range slices.Chunk(seqs, parkedBatch) {
				if err == nil {
					n, err = change(a)(ctx, part...)
					done += n
				}
			}
			text = num(int64(done)) + " of " + num(int64(len(seqs))) + " events " + did + "."
			return text, partly(done, err)
		})
		return text, err
	})
}

// partly returns an error, joined with errMore if a part was done before.
func partly(done int, err error) error {
	if err != nil && done > 0 {
		return errors.Join(errMore, err)
	}
	return err
}

// removeAll replays or discards the selected dead letters, as far as there is time. It
// returns how many, and a line for each that was refused and stays.
func (a *actions) removeAll(ctx context.Context, s selection, work removal) (done int, refused []string, err error) {
	err = a.visit(ctx, func(ctx context.Context, letters *deadletter.Service) error {
		sum, err := work(letters, ctx, s.letters(), func(r deadletter.Result) {
			if r.Why != nil {
				refused = append(refused, string(r.Message.Tenant)+" "+timer.Quote(r.Message.ID)+" stays: "+r.Why.Error())
			}
		})
		done = sum.Done
		return err
	})
	return done, refused, err
}

// seqs returns the numbers of the selected parked events.
func (a *actions) seqs(ctx context.Context, s selection) (seqs []int64, err error) {
	for after := int64(0); ; {
		page, next, err := s.parked(ctx, a.timers, after, timer.MaxPage)
		for _, e := range page {
			seqs = append(seqs, e.Seq)
		}
		if after = next; next == 0 || err != nil {
			slices.Sort(seqs) // they are retried in the order in which they were parked
			return seqs, err
		}
	}
}
