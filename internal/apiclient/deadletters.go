package apiclient

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/time/rate"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/timer"
)

// DeadLetters are those of a service. Its methods are those of [deadletter.Service], but
// that a replay does not say where to and as what.
type DeadLetters struct {
	*Client
	Bodies bool // whether List reads them: a request for each
}

// List calls show with each dead letter that fits, oldest first.
func (d DeadLetters) List(ctx context.Context, f deadletter.Filter, show func(deadletter.Message) error) (sum deadletter.Summary, err error) {
	path, reason, missing := "/v1/dead-letters", "", slices.Clone(f.IDs)
	if f.Tenant != "" {
		path = deadLetterPath(f.Tenant, "")
	}
	if len(f.Reasons) == 1 {
		reason = string(f.Reasons[0])
	}
	for after := ""; ; {
		var page admin.DeadLetters
		err := d.get(ctx, path+query("reason", reason, "since", stamp(f.Since), "correlationId", f.Correlation, "after", after, "limit", strconv.Itoa(timer.MaxPage)), &page)
		switch {
		case errors.Is(err, timer.ErrInvalid) && strings.Contains(err.Error(), broker.ErrNameTenant.Error()):
			return sum, broker.ErrNameTenant
		case err != nil:
			return sum, err
		}
		for _, l := range page.DeadLetters {
			m := deadLetter(l)
			switch {
			case !f.Fits(m):
				continue
			case f.Limit > 0 && sum.Done == f.Limit:
				sum.More = true
				return sum, nil
			case d.Bodies:
				err = d.get(ctx, deadLetterPath(m.Tenant, m.ID), &l)
				m = deadLetter(l)
			}
			if err == nil {
				err = show(m)
			}
			if err != nil {
				return sum, err
			}
			sum.Done++
			missing = slices.DeleteFunc(missing, func(id string) bool { return id == m.ID })
		}
		if after = page.Next; after == "" {
			sum.Missing = missing
			return sum, nil
		}
	}
}

// Replay is that of [deadletter.Service].
func (d DeadLetters) Replay(ctx context.Context, f deadletter.Filter, opt deadletter.Options) (deadletter.Summary, error) {
	return d.each(ctx, f, opt, deadletter.Replayed, func(m deadletter.Message) error {
		if err := m.Replayable(); err != nil || opt.DryRun {
			return conflictOf(err)
		}
		return d.do(ctx, http.MethodPost, deadLetterPath(m.Tenant, m.ID)+":replay", nil, nil)
	})
}

// Discard is that of [deadletter.Service].
func (d DeadLetters) Discard(ctx context.Context, f deadletter.Filter, opt deadletter.Options) (deadletter.Summary, error) {
	return d.each(ctx, f, opt, deadletter.Discarded, func(m deadletter.Message) error {
		if opt.DryRun {
			return nil
		}
		return d.do(ctx, http.MethodDelete, deadLetterPath(m.Tenant, m.ID), nil, nil)
	})
}

// each does something with all that fit. One that is gone meanwhile is missing.
func (d DeadLetters) each(
	ctx context.Context, f deadletter.Filter, opt deadletter.Options, did string, do func(deadletter.Message) error,
) (deadletter.Summary, error) {
	var all []deadletter.Message // a page begins after a dead letter, which must not be removed yet
	sum, err := DeadLetters{Client: d.Client}.List(ctx, f, func(m deadletter.Message) error {
		all = append(all, m)
		return nil
	})
	sum.Done = 0
	if err != nil {
		return sum, err
	}
	limiter := rate.NewLimiter(rate.Inf, 1)
	if opt.Rate > 0 && !opt.DryRun {
		limiter.SetLimit(rate.Limit(opt.Rate))
	}
	for _, m := range all {
		if err := limiter.Wait(ctx); err != nil {
			return sum, errors.Join(ctx.Err(), err)
		}
		done := deadletter.Result{Message: m, Did: did}
		err := do(m)
		why, refused := errors.AsType[conflict](err)
		switch {
		case refused:
			sum.Refused++
			done.Did, done.Why = deadletter.Refused, errors.New(strings.TrimPrefix(string(why), "the dead letter stays as it is: "))
		case errors.Is(err, timer.ErrNotFound):
			sum.Missing = append(sum.Missing, m.ID)
			continue
		case err != nil:
			return sum, err
		default:
			sum.Done++
		}
		if opt.Tell != nil {
			opt.Tell(done)
		}
	}
	return sum, nil
}

func conflictOf(err error) error {
	if err == nil {
		return nil
	}
	return conflict(err.Error())
}

func deadLetterPath(tenant timer.TenantID, id string) string {
	path := "/v1/tenants/" + url.PathEscape(string(tenant)) + "/dead-letters"
	if id != "" {
		path += "/" + segment(id)
	}
	return path
}

func deadLetter(l admin.DeadLetter) deadletter.Message {
	return deadletter.Message{
		ID: l.ID, Tenant: l.TenantID, Reason: l.Reason, Detail: l.Detail, Topic: l.Topic, Position: l.Position, OriginalID: l.OriginalID,
		FirstAt: parseTime(l.FirstAt), LastAt: parseTime(l.LastAt), Count: l.Count, Replays: l.Replays, Truncated: l.Truncated,
		CorrelationID: l.CorrelationID, Body: bytesOf(l.Body),
	}
}

// bytesOf returns the body of a message; nil if the answer has none.
func bytesOf(b admin.Body) []byte {
	if b.Text != nil {
		return []byte(*b.Text)
	}
	if b.Base64 == nil {
		return nil
	}
	body, _ := base64.StdEncoding.DecodeString(*b.Base64) // the service has encoded it
	return body
}
