package admin

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	againAfter   = 2 * time.Second // after a replay: when the service has refused again what it refuses
	shownRefused = 100             // dead letters that an answer names
	parkedBatch  = 200             // events that are changed at once, so that timers get their turn
)

// A removal is what changes dead letters.
type removal func(*deadletter.Service, context.Context, deadletter.Filter, func(deadletter.Result)) (deadletter.Summary, error)

// bulkDeed returns a deed that is done to all of a selection.
func bulkDeed(
	d deed, found func(context.Context, *actions, selection) (string, error), do func(context.Context, *actions, selection) (string, error),
) deed {
	on := func(work func(context.Context, *actions, selection) (string, error)) func(context.Context, *actions, timer.TenantID, string) (string, error) {
		return func(ctx context.Context, a *actions, _ timer.TenantID, filter string) (string, error) {
			form, err := url.ParseQuery(filter)
			if err != nil {
				return "", huma.Error400BadRequest("the filter can't be read")
			}
			s, err := selected(ctx, form)
			if err != nil {
				return "", err
			}
			return work(ctx, a, s)
		}
	}
	d.Of, d.found, d.do = "filter", on(found), on(do)
	return d
}

// lettersDeed returns a deed that is done to all dead letters of a selection.
func lettersDeed(d deed, what, did string, work removal) deed {
	d.Back = "/dead-letters"
	return bulkDeed(d, func(ctx context.Context, a *actions, s selection) (string, error) {
		n, more, err := a.countLetters(ctx, s)
		return atLeastIf(more) + count(int64(n), "dead letter") + " " + s.String() + ".", err
	}, func(ctx context.Context, a *actions, s selection) (string, error) {
		n, refused, err := a.removeAll(ctx, what, s, work)
		text := count(int64(n), "dead letter") + " " + did
		if err != nil {
			text += " so far, not all: ask again"
		}
		if err == nil && len(refused) > 0 {
			err = errMore
		}
		if len(refused) > shownRefused {
			refused = append(refused[:shownRefused], "and "+num(int64(len(refused)-shownRefused))+" others")
		}
		return strings.Join(append([]string{text + "."}, refused...), "\n"), err
	})
}

// parkedDeed returns a deed that is done to all parked events of a selection.
func parkedDeed(d deed, what, did string, change func(*actions) func(context.Context, ...int64) (int, error)) deed {
	d.Back, d.Service = "/parked", true
	return bulkDeed(d, func(ctx context.Context, a *actions, s selection) (string, error) {
		seqs, err := a.seqs(ctx, s)
		return count(int64(len(seqs)), "parked event") + " " + s.String() + ".", err
	}, func(ctx context.Context, a *actions, s selection) (string, error) {
		done, of, err := a.changeParked(ctx, what, s, change)
		text := num(int64(done)) + " of " + num(int64(of)) + " events " + did
		switch {
		case err != nil:
			text += ", not all: ask again"
		case done < of:
			text += ": the others were retried or discarded meanwhile"
		}
		return text + ".", err
	})
}

// String says for people what is selected.
func (s selection) String() string {
	text := "of all tenants"
	if s.Tenant != "" {
		text = "of " + string(s.Tenant)
	}
	if s.Reason != "" {
		text += ", with the reason " + quote(s.Reason)
	}
	if s.Correlation != "" {
		text += ", with the correlation id " + quote(s.Correlation)
	}
	if !s.From.IsZero() {
		text += ", since " + stamp(s.From)
	}
	return text
}

// atLeastIf is what stands before a number that may be larger.
func atLeastIf(more bool) string {
	if more {
		return "At least "
	}
	return ""
}

// countLetters returns how many dead letters are selected, and whether there was no time
// to read all.
func (a *actions) countLetters(ctx context.Context, s selection) (n int, more bool, err error) {
	err = a.visit(ctx, func(ctx context.Context, letters *deadletter.Service) error {
		sum, err := letters.List(ctx, s.letters(), func(deadletter.Message) error { return nil })
		n = sum.Done
		return err
	})
	if err != nil && n > 0 {
		return n, true, nil
	}
	return n, false, a.visitFailed(ctx, err)
}

// removeAll replays or discards the dead letters that are selected, and returns how many,
// and a line for each that was refused: it stays, or the service has refused its command again.
// The error is errMore if there was no time for all.
func (a *actions) removeAll(ctx context.Context, what string, s selection, work removal) (done int, refused []string, err error) {
	more := false
	line := func(m deadletter.Message, now, why string) {
		refused = append(refused, string(m.Tenant)+" "+quote(m.ID)+" "+now+": "+why)
	}
	err = a.do(ctx, what, s.Tenant, s.String(), func() (string, error) {
		err := a.visit(ctx, func(ctx context.Context, letters *deadletter.Service) error {
			replayed := make(map[string]time.Time) // by the id that the command has: when it became a dead letter
			sum, err := work(letters, ctx, s.letters(), func(r deadletter.Result) {
				switch {
				case r.Why != nil:
					line(r.Message, "stays", r.Why.Error())
				case r.ID != "":
					replayed[r.ID], replayed[r.Message.OriginalID] = r.Message.LastAt, r.Message.LastAt
				}
			})
			done = sum.Done
			delete(replayed, "")
			if len(replayed) > 0 && pause.For(ctx, againAfter) {
				_, _ = letters.List(ctx, deadletter.Filter{Tenant: s.Tenant}, func(m deadletter.Message) error { // as far as there is time
					if at, ours := replayed[m.OriginalID]; ours && m.LastAt.After(at) {
						line(m, "refused again", string(m.Reason)+", "+m.Detail)
					}
					return nil
				})
			}
			return err
		})
		result := count(int64(done), "dead letter") + ", " + num(int64(len(refused))) + " refused"
		if more = err != nil && done > 0; more {
			a.log.WarnContext(ctx, "some dead letters are left", "action", what, "error", err)
			return result + ", not all", nil
		}
		return result, a.visitFailed(ctx, err)
	})
	if more {
		err = errMore
	}
	return done, refused, err
}

// seqs returns the numbers of the parked events that are selected.
func (a *actions) seqs(ctx context.Context, s selection) (seqs []int64, err error) {
	for after := int64(0); ; {
		page, next, err := s.parked(ctx, a.timers, after, timer.MaxPage)
		for _, e := range page {
			seqs = append(seqs, e.Seq)
		}
		if after = next; next == 0 || err != nil {
			return seqs, err
		}
	}
}

// changeParked retries or discards the parked events that are selected, and returns how
// many, of how many. The error is errMore if there was no time for all.
func (a *actions) changeParked(ctx context.Context, what string, s selection, change func(*actions) func(context.Context, ...int64) (int, error)) (done, of int, err error) {
	more := false
	err = a.operate(ctx, what, s.Tenant, s.String(), func(ctx context.Context) (string, error) {
		seqs, err := a.seqs(ctx, s) // before any is changed: what is refused again is parked again
		of = len(seqs)
		for part := range slices.Chunk(seqs, parkedBatch) {
			if err != nil {
				break
			}
			var n int
			n, err = change(a)(ctx, part...)
			done += n
		}
		result := num(int64(done)) + " of " + num(int64(of))
		if more = err != nil && done > 0; more {
			a.log.WarnContext(ctx, "some parked events are left", "action", what, "error", err)
			return result, nil
		}
		return result, err
	})
	if more {
		err = errMore
	}
	return done, of, err
}
