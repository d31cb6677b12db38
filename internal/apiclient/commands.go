package apiclient

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/timer"
)

func timerPath(key timer.Key) string {
	return "/v1/tenants/" + segment(string(key.TenantID)) + "/timers/" + segment(string(key.ServiceCallID))
}

// segment returns a text as one segment of a path. A service call may be ".", or "..",
// which the service would take for another path if they were not escaped.
func segment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// Schedule publishes a ScheduleTimer, and returns what the service has made of it.
func (c *Client) Schedule(ctx context.Context, key timer.Key, request admin.TimerRequest) (done admin.Command, err error) {
	data := request.Data
	request.Data = nil
	body, err := json.Marshal(request)
	if err == nil && len(data) > 0 { // which is to stay as it is, and Marshal would compact it
		body = append(append(append(body[:len(body)-1], `,"data":`...), data...), '}')
	}
	if err == nil {
		err = c.do(ctx, http.MethodPut, timerPath(key), body, &done)
	}
	return done, err
}

// Cancel publishes a CancelTimer.
func (c *Client) Cancel(ctx context.Context, key timer.Key, correlationID string) (done admin.Command, err error) {
	err = c.do(ctx, http.MethodDelete, timerPath(key)+query("correlationId", correlationID), nil, &done)
	return done, err
}
