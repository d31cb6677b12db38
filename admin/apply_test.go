package admin_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestAProgramWithoutABrokerTakesCommands by its API and its pages, and applies them at once.
func TestAProgramWithoutABrokerTakesCommands(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{Durability: sqlite.Relaxed})
	must(t, err)
	defer s.Close()
	a, err := app.New(s, nil, log, app.Options{})
	must(t, err)
	a.Timers().OnDue("", func(context.Context, timer.DueTimeReached) error { return nil }, app.OnDueOptions{})
	server := admin.New(log, admin.Embedded(a, s, nil, log))
	request := func(method, path, kind, body string) *httptest.ResponseRecorder {
		answer, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		server.ServeHTTP(answer, r)
		return answer
	}
	const path = "/v1/tenants/acme/timers/"
	schedule := func(call string, want int) {
		t.Helper()
		if answer := request(http.MethodPut, path+call, "application/json", `{"in":"1h","data":{"a":1}}`); answer.Code != want {
			t.Errorf("schedule %s: %d %s, want %d", call, answer.Code, answer.Body, want)
		}
	}
	state := func(call string, want timer.State) {
		t.Helper()
		e, err := a.Timers().Get(t.Context(), timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)})
		if err != nil || e.State != want {
			t.Errorf("%s is %s, %v, want %s", call, e.State, err, want)
		}
	}
	for _, call := range []string{"order-1", "order-2", "order-3", "order-4"} {
		schedule(call, http.StatusOK)
		state(call, timer.Scheduled)
	}
	schedule("a/b", http.StatusNotFound)
	due := func(call string, want time.Time) {
		t.Helper()
		e, err := a.Timers().Get(t.Context(), timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)})
		if err != nil || !e.DueAt.Equal(want) || e.State != timer.Scheduled {
			t.Errorf("%s is %s, due at %s, %v, want %s", call, e.State, e.DueAt, err, want)
		}
	}
	to := time.Now().UTC().Add(48 * time.Hour).Truncate(time.Second)
	for _, query := range []string{"prefix=order-&to=" + to.Format(time.RFC3339), "call=order-3&call=order-4&by=2h"} {
		if answer := request(http.MethodPost, strings.TrimSuffix(path, "/")+":reschedule?"+query, "", ""); answer.Code != http.StatusAccepted {
			t.Errorf("reschedule: %d %s", answer.Code, answer.Body)
		}
	}
	due("order-1", to)
	due("order-4", to.Add(2*time.Hour))
	if answer := request(http.MethodDelete, path+"order-1", "", ""); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "canceled") {
		t.Errorf("cancel: %d %s", answer.Code, answer.Body)
	}
	state("order-1", timer.Canceled)
	if page := request(http.MethodGet, "/timer?tenant=acme&call=order-2", "", ""); !strings.Contains(page.Body.String(), "Cancel this timer") {
		t.Errorf("the page of a timer: %d %s", page.Code, page.Body)
	}
	if page := request(http.MethodPost, "/do/cancel", "application/x-www-form-urlencoded", "tenant=acme&call=order-2"); page.Code >= http.StatusBadRequest {
		t.Errorf("cancel on a page: %d %s", page.Code, page.Body)
	}
	state("order-2", timer.Canceled)
	if page := request(http.MethodPost, "/do/cancel-prefix", "application/x-www-form-urlencoded", "tenant=acme&prefix=order-"); page.Code >= http.StatusBadRequest {
		t.Errorf("cancel many on a page: %d %s", page.Code, page.Body)
	}
	state("order-3", timer.Canceled)
	state("order-4", timer.Canceled)
}
