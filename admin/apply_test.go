package admin_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// TestAProgramWithoutABrokerTakesCommands by its API and its pages, and applies them at once.
func TestAProgramWithoutABrokerTakesCommands(t *testing.T) {
	t.Parallel()
	s := database(t)
	a, err := app.New(s, nil, quiet, app.Options{})
	must(t, err)
	a.Timers().OnDue("", func(context.Context, timer.DueTimeReached) error { return nil }, app.OnDueOptions{})
	server := admin.New(quiet, admin.Embedded(a, s, nil, quiet))
	is := func(call timer.ServiceCallID, state timer.State, due time.Time) {
		t.Helper()
		e, err := a.Timers().Get(t.Context(), timer.Key{TenantID: "acme", ServiceCallID: call})
		if err != nil || e.State != state || !due.IsZero() && !e.DueAt.Equal(due) {
			t.Errorf("%s is %s, due at %s, %v, want %s at %s", call, e.State, e.DueAt, err, state, due)
		}
	}
	const path = "/v1/tenants/acme/timers"
	for _, call := range []timer.ServiceCallID{"order-1", "order-2", "order-3", "order-4"} {
		if code, got, _ := send(t, server, "PUT", path+"/"+string(call), `{"in":"1h","data":{"a":1}}`); code != 200 {
			t.Errorf("schedule %s: %d %v", call, code, got)
		}
		is(call, timer.Scheduled, time.Time{})
	}
	to := time.Now().UTC().Add(48 * time.Hour).Truncate(time.Second)
	for _, query := range []string{"prefix=order-&to=" + to.Format(time.RFC3339), "call=order-3&call=order-4&by=2h"} {
		if code, text := do(server, "POST", path+":reschedule?"+query); code != 202 {
			t.Errorf("reschedule: %d %s", code, text)
		}
	}
	is("order-1", timer.Scheduled, to)
	is("order-4", timer.Scheduled, to.Add(2*time.Hour))
	if code, text := do(server, "DELETE", path+"/order-1"); code != 200 || !strings.Contains(text, "canceled") {
		t.Errorf("cancel: %d %s", code, text)
	}
	is("order-1", timer.Canceled, time.Time{})
	if _, text := get(server, "/timer?tenant=acme&call=order-2"); !strings.Contains(text, "Cancel this timer") {
		t.Errorf("the page of a timer: %s", text)
	}
	cancel := func(deed, field, value string) {
		t.Helper()
		if code, text := submit(server, "/do/"+deed, url.Values{"tenant": {"acme"}, field: {value}}); code != 200 {
			t.Errorf("%s on a page: %d %s", deed, code, text)
		}
	}
	cancel("cancel", "call", "order-2")
	is("order-2", timer.Canceled, time.Time{})
	cancel("cancel-prefix", "prefix", "order-")
	is("order-3", timer.Canceled, time.Time{})
	is("order-4", timer.Canceled, time.Time{})
}
