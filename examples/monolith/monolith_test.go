package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// A program is the monolith under test, and what it holds.
type program struct {
	app    *fxtest.App
	db     *sql.DB
	timers *app.Timers
	url    string // of the page
	*Orchestration

	done chan any // ExecutionSucceeded and ExecutionFailed, after they were recorded
}

func start(t *testing.T, more ...fx.Option) *program {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &program{url: "http://" + socket.Addr().String(), done: make(chan any, 100)}
	p.app = fxtest.New(t,
		Monolith(filepath.Join(t.TempDir(), "monolith.db"), socket),
		fx.NopLogger,
		fx.Populate(&p.db, &p.timers, &p.Orchestration),
		fx.Invoke(func(bus *Bus) {
			Subscribe(bus, func(_ context.Context, e ExecutionSucceeded) error { p.done <- e; return nil })
			Subscribe(bus, func(_ context.Context, e ExecutionFailed) error { p.done <- e; return nil })
		}),
		fx.Options(more...),
	)
	p.app.RequireStart()
	return p
}

// An endpoint answers with a code, and keeps the headers of requests.
type endpoint struct {
	*httptest.Server
	code     atomic.Int64
	requests chan http.Header
}

func newTestEndpoint(t *testing.T, code int64) *endpoint {
	e := &endpoint{requests: make(chan http.Header, 100)}
	e.code.Store(code)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(int(e.code.Load()))
		e.requests <- r.Header
	}))
	t.Cleanup(e.Close)
	return e
}

// call returns a service call of the endpoint.
func (e *endpoint) call(after time.Duration) ServiceCall {
	return ServiceCall{
		Key: timer.Key{TenantID: "acme", ServiceCallID: "order-1"},
		URL: e.URL, CorrelationID: "req-7", DueAt: time.Now().Add(after),
	}
}

// TestRunsWhatIsDue, once: a request that is refused is not made again.
func TestRunsWhatIsDue(t *testing.T) {
	t.Parallel()
	for code, state := range map[int64]string{http.StatusOK: "Succeeded", http.StatusForbidden: "Failed"} {
		p, e := start(t), newTestEndpoint(t, code)
		defer p.app.RequireStop()
		if err := p.Book(t.Context(), e.call(0)); err != nil {
			t.Fatal(err)
		}
		request := <-e.requests
		if key, correlation := request.Get(headerKey), request.Get(headerCorrelation); key != "acme.order-1" || correlation != "req-7" {
			t.Errorf("key %q and correlation %q, want acme.order-1 and req-7", key, correlation)
		}
		<-p.done
		p.wantState(t, state)
	}
}

func TestRescheduleAndCancelUntilItStarts(t *testing.T) {
	t.Parallel()
	p, e := start(t), newTestEndpoint(t, http.StatusOK)
	defer p.app.RequireStop()
	canceled := e.call(time.Hour)
	canceled.ServiceCallID = "order-2"
	for _, c := range []ServiceCall{e.call(time.Hour), canceled} {
		if err := p.Book(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(p.Reschedule(t.Context(), e.call(0)), p.Cancel(t.Context(), canceled.Key)); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if err := p.Reschedule(t.Context(), e.call(time.Hour)); !errors.Is(err, errNotScheduled) {
		t.Errorf("reschedule a call that is done: %v", err)
	}
	if err := p.Cancel(t.Context(), e.call(0).Key); !errors.Is(err, errNotScheduled) {
		t.Errorf("cancel a call that is done: %v", err)
	}
	if got, err := p.timers.Get(t.Context(), canceled.Key); err != nil || got.State != timer.Canceled {
		t.Errorf("the timer of a canceled call is %v, %v", got.State, err)
	}
}

func TestPageShowsBooksAndCancels(t *testing.T) {
	t.Parallel()
	p := start(t)
	defer p.app.RequireStop()
	post := func(path string, form url.Values) string {
		res, err := http.PostForm(p.url+path, form)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.Status + string(body)
	}
	form := url.Values{"tenant": {"acme"}, "call": {"order-1"}, "after": {"1h"}, "url": {p.url + "/endpoint"}}
	for _, page := range []string{post("/calls", form), post("/calls/acme/order-1/cancel", nil)} {
		if !strings.Contains(page, "200 OK") || !strings.Contains(page, "acme.order-1") {
			t.Errorf("the page is\n%s", page)
		}
	}
	p.wantState(t, "Canceled")
	if again := post("/calls/acme/order-1/cancel", nil); !strings.Contains(again, "409 Conflict") {
		t.Errorf("canceled twice: %s", again)
	}
	res, err := http.Get(p.url + "/timers/timer?tenant=acme&call=order-1")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the page of the timer: %s", res.Status)
	}
}

// wantState checks the state of the only service call.
func (p *program) wantState(t *testing.T, want string) {
	t.Helper()
	var state string
	if err := p.db.QueryRowContext(t.Context(), `SELECT state FROM service_calls`).Scan(&state); err != nil || state != want {
		t.Errorf("the service call is %s, %v, want %s", state, err, want)
	}
}
