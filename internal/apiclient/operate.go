package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/timer"
)

func parked(p admin.ParkedEvent) timer.ParkedEvent {
	return timer.ParkedEvent{
		Seq: p.Seq, ID: p.ID, TenantID: p.TenantID, ServiceCallID: p.ServiceCallID, CorrelationID: p.CorrelationID,
		AppendedAt: parseTime(p.AppendedAt), ParkedAt: parseTime(p.ParkedAt), Attempts: p.Attempts, Reason: p.Reason, Body: bytesOf(p.Body),
	}
}

// Parked returns a page of parked events, without their bodies.
func (c *Client) Parked(ctx context.Context, tenant timer.TenantID, after int64, limit int) (all []timer.ParkedEvent, err error) {
	var page admin.ParkedEvents
	err = c.get(ctx, "/v1/parked"+query("tenant", string(tenant), "after", strconv.FormatInt(after, 10), "limit", strconv.Itoa(limit)), &page)
	for _, p := range page.Parked {
		all = append(all, parked(p))
	}
	return all, err
}

// RetryParked puts a parked event back into the outbox. The error wraps
// [timer.ErrNotFound] if there is none with the number.
func (c *Client) RetryParked(ctx context.Context, seq int64) error {
	return c.do(ctx, http.MethodPost, parkedPath(seq)+":retry", nil, nil)
}

// DiscardParked deletes a parked event for good. The error wraps [timer.ErrNotFound] if
// there is none with the number.
func (c *Client) DiscardParked(ctx context.Context, seq int64) error {
	return c.do(ctx, http.MethodDelete, parkedPath(seq), nil, nil)
}

func parkedPath(seq int64) string { return "/v1/parked/" + strconv.FormatInt(seq, 10) }

// ParkedEvent returns a parked event with its body. The error wraps [timer.ErrNotFound] if
// there is none with the number.
func (c *Client) ParkedEvent(ctx context.Context, seq int64) (timer.ParkedEvent, error) {
	var p admin.ParkedEvent
	err := c.get(ctx, parkedPath(seq), &p)
	return parked(p), err
}

// PauseFiring pauses firing. The service notes who asks, and when.
func (c *Client) PauseFiring(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/v1/firing:pause", nil, nil)
}

// ResumeFiring ends the pause.
func (c *Client) ResumeFiring(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/v1/firing:resume", nil, nil)
}

// Forget deletes timers of a tenant, and returns how many: none when all are deleted.
func (c *Client) Forget(ctx context.Context, tenant timer.TenantID) (timer.Counts, error) {
	name := url.PathEscape(string(tenant))
	var f admin.Forgotten
	err := c.do(ctx, http.MethodDelete, "/v1/tenants/"+name+"?confirm="+name, nil, &f)
	return timer.Counts(f.Deleted), err
}
