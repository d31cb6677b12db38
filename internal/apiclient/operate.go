package apiclient

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/timer"
)

func parked(p admin.ParkedEvent) timer.ParkedEvent {
	return timer.ParkedEvent{
		Seq: p.Seq, ID: p.ID, TenantID: p.TenantID, ServiceCallID: p.ServiceCallID, CorrelationID: p.CorrelationID,
		AppendedAt: parseTime(p.AppendedAt), ParkedAt: parseTime(p.ParkedAt), Attempts: p.Attempts, Reason: p.Reason, Body: bytesOf(p.Body),
	}
}

// Parked is that of [timer.Reader], without bodies, unless one event is asked for.
func (c *Client) Parked(ctx context.Context, tenant timer.TenantID, after int64, limit int) (all []timer.ParkedEvent, err error) {
	var page admin.ParkedEvents
	err = c.get(ctx, "/v1/parked"+query("tenant", string(tenant), "after", strconv.FormatInt(after, 10), "limit", strconv.Itoa(limit)), &page)
	for _, p := range page.Parked {
		e := parked(p)
		if limit == 1 && err == nil {
			var whole admin.ParkedEvent
			if err = c.get(ctx, "/v1/parked/"+strconv.FormatInt(e.Seq, 10), &whole); err == nil {
				e = parked(whole)
			}
		}
		all = append(all, e)
	}
	return all, err
}

// RetryParked is that of [timer.Operator].
func (c *Client) RetryParked(ctx context.Context, _ time.Time, seqs ...int64) (int, error) {
	return c.each(ctx, http.MethodPost, ":retry", seqs)
}

// DiscardParked is that of [timer.Operator].
func (c *Client) DiscardParked(ctx context.Context, seqs ...int64) (int, error) {
	return c.each(ctx, http.MethodDelete, "", seqs)
}

// each asks to change parked events, and returns how many there were.
func (c *Client) each(ctx context.Context, method, verb string, seqs []int64) (n int, err error) {
	for _, seq := range seqs {
		err := c.do(ctx, method, "/v1/parked/"+strconv.FormatInt(seq, 10)+verb, nil, nil)
		switch {
		case errors.Is(err, timer.ErrNotFound):
		case err != nil:
			return n, err
		default:
			n++
		}
	}
	return n, nil
}

// PauseFiring is that of [timer.Operator]. The service notes who asks, and when.
func (c *Client) PauseFiring(ctx context.Context, _ timer.Pause) error {
	return c.do(ctx, http.MethodPost, "/v1/firing:pause", nil, nil)
}

// ResumeFiring is that of [timer.Operator].
func (c *Client) ResumeFiring(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/v1/firing:resume", nil, nil)
}

// Forget is that of [timer.Operator], but that the service sets the limit.
func (c *Client) Forget(ctx context.Context, tenant timer.TenantID, _ int) (timer.Counts, error) {
	name := url.PathEscape(string(tenant))
	var f admin.Forgotten
	err := c.do(ctx, http.MethodDelete, "/v1/tenants/"+name+"?confirm="+name, nil, &f)
	return timer.Counts(f.Deleted), err
}
