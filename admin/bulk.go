package admin

import (
	"cmp"
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

// A removal is a way to remove dead letters.
type removal struct {
	Verb, Did string
	work      func(*deadletter.Service, context.Context, deadletter.Filter, func(deadletter.Result)) (deadletter.Summary, error)
}

// These are the removals. After [deadletter.MaxReplays] replays another one is refused.
var (
	replay  = removal{"replay", "replayed", (*deadletter.Service).Replay}
	discard = removal{"discard", "discarded", (*deadletter.Service).Discard}
)

// remove removes dead letters that fit a filter, which people know as the selection, and tells
// what became of each. The summary says where the next call goes on if there was no time for all.
func (a *actions) remove(ctx context.Context, how removal, s selection, f deadletter.Filter, tell func(deadletter.Result)) (sum deadletter.Summary, err error) {
	f.Until = cmp.Or(f.Until, a.now()) // messages that are refused again meanwhile are for the next call
	err = a.do(ctx, how.Verb+" dead letters", s.Tenant, s.String(), func() (string, error) {
		err := a.visit(ctx, func(ctx context.Context, letters *deadletter.Service) (err error) {
			sum, err = how.work(letters, ctx, f, tell)
			return inPart(f, sum, err)
		})
		return how.did(sum), partly(sum.Done, err)
	})
	return sum, err
}

// did returns the results for dead letters, for people.
func (r removal) did(sum deadletter.Summary) string {
	return count(int64(sum.Done), "dead letter") + " " + r.Did + ", " + num(int64(sum.Refused)) + " refused."
}

// apply removes the selected dead letters, as far as there is time, and says how many.
// There is a line for each that was refused and stays.
func (r removal) apply(ctx context.Context, a *actions, s selection) (text string, err error) {
	var refused []string
	sum, err := a.remove(ctx, r, s, s.letters(), func(of deadletter.Result) {
		if of.Why != nil && len(refused) < shownRefused {
			refused = append(refused, string(of.Message.Tenant)+" "+timer.Quote(of.Message.ID)+" stays: "+of.Why.Error())
		}
	})
	switch {
	case err == nil && s.ID != "" && sum.Done+sum.Refused == 0:
		err = noDeadLetter(s.ID)
	case err == nil && sum.Next != "":
		err = errMore
	}
	return strings.Join(append([]string{r.did(sum)}, refused...), "\n"), err
}

// countLetters counts the selected dead letters for people.
func countLetters(ctx context.Context, a *actions, s selection) (text string, err error) {
	err = a.visit(ctx, func(ctx context.Context, letters *deadletter.Service) error {
		sum, err := letters.List(ctx, s.letters(), func(deadletter.Message) error { return nil })
		if text = count(int64(sum.Done), "dead letter") + " " + s.String() + "."; err != nil && sum.Done > 0 {
			text, err = "At least "+text, nil
		}
		return err
	})
	return text, err
}

// A parkedChange is a way to change parked events.
type parkedChange struct {
	Verb, Result, Did string
	change            func(a *actions, ctx context.Context, seqs ...int64) (int, error)
}

// These are the changes of parked events.
var (
	retryParked = parkedChange{"retry", "retried", "in the outbox again", func(a *actions, ctx context.Context, seqs ...int64) (int, error) {
		return a.Service.Retry(ctx, seqs...)
	}}
	discardParked = parkedChange{"discard", "discarded", "deleted for good", func(a *actions, ctx context.Context, seqs ...int64) (int, error) {
		return a.Operator.DiscardParked(ctx, seqs...)
	}}
)

// apply changes the selected parked events, and says how many. The numbers are read before
// any event is changed, since an event that is refused again is parked again.
func (p parkedChange) apply(ctx context.Context, a *actions, s selection) (text string, err error) {
	text, _, err = a.changeEvents(ctx, p, s, func(ctx context.Context) ([]int64, error) { return a.seqs(ctx, s) })
	return text, err
}

// changeEvents changes the parked events whose numbers find returns, which people know as the
// selection. It counts them for people, and returns the numbers of the changed ones.
func (a *actions) changeEvents(ctx context.Context, how parkedChange, s selection, find func(context.Context) ([]int64, error)) (text string, changed []int64, err error) {
	err = a.operate(ctx, operateTimeout, how.Verb+" parked events", s.Tenant, s.String(), func(ctx context.Context) (string, error) {
		seqs, err := find(ctx)
		if err != nil {
			return "", err
		}
		done := 0
		for part := range slices.Chunk(seqs, parkedBatch) {
			var n int
			if n, err = how.change(a, ctx, part...); err != nil {
				break
			}
			changed, done = append(changed, part...), done+n
		}
		if err == nil && s.ID != "" && done == 0 {
			err = noParked(s.ID)
		}
		text = num(int64(done)) + " of " + num(int64(len(seqs))) + " events " + how.Did + "."
		return text, partly(done, err)
	})
	return text, changed, err
}

// countParked counts the selected parked events for people.
func countParked(ctx context.Context, a *actions, s selection) (string, error) {
	seqs, err := a.seqs(ctx, s)
	return count(int64(len(seqs)), "parked event") + " " + s.String() + ".", err
}

// seqs returns the numbers of the selected parked events, in the order in which they were
// parked.
func (a *actions) seqs(ctx context.Context, s selection) (seqs []int64, err error) {
	for after := ""; ; {
		page, next, err := s.parked(ctx, a.Timers, after, timer.MaxPage)
		for _, e := range page {
			seqs = append(seqs, e.Seq)
		}
		if after = next; next == "" || err != nil {
			slices.Sort(seqs)
			return seqs, err
		}
	}
}

// partly returns an error, joined with errMore if a part was done before.
func partly(done int, err error) error {
	if err != nil && done > 0 {
		return errors.Join(errMore, err)
	}
	return err
}
