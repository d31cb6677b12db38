package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/timer"
)

// heldBroker is a broker of which a visit to dead letters ends when it is released.
type heldBroker struct {
	broker.Broker
	release chan struct{}
}

func (h heldBroker) VisitDeadLetters(ctx context.Context, _ timer.TenantID, _ string, _ broker.DeadLetterVisit) error {
	select {
	case <-h.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestTenantHasItsShareOnly of what all share: what one takes is not missing to others.
func TestTenantHasItsShareOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := heldBroker{gochannel.New(gochannel.Options{}, quiet), make(chan struct{})}
		s := admin.New(quiet, admin.Options{
			Token: "full", Monitor: admin.NewMonitor(nil, quiet), Timers: unreadableTimers{}, Broker: b, Events: admin.NewEvents(),
		})
		useTokens(t, s, tenantTokens)
		ctx, stop := context.WithCancel(t.Context())
		begin := func(target, token string) *deadlineRecorder {
			defer synctest.Wait()
			return follow(ctx, s, target, with(token)...)
		}
		refused := func(w *deadlineRecorder, code int, what, says string) {
			t.Helper()
			if w.Code != code || w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), says) {
				t.Errorf("%s: %d %v %s", what, w.Code, w.Header(), w.Body)
			}
		}
		const letters, other = "/v1/dead-letters?tenant=acme", "/v1/dead-letters?tenant=globex"
		reading := begin(letters, "acme")
		refused(begin(letters, "acme"), 429, "a second visit", "another request of your tenant")
		begin(other, "globex")
		begin(letters, "full")
		begin(letters, "full")
		close(b.release)
		synctest.Wait()
		if reading.Code != 200 {
			t.Errorf("the first visit: %d %s", reading.Code, reading.Body)
		}
		if w := begin(letters, "acme"); w.Code != 200 {
			t.Errorf("when the first has ended: %d %s", w.Code, w.Body)
		}

		for range 11 {
			begin("/v1/events?tenant=acme", "full") // is no share of the tenant
		}
		for range 5 {
			begin("/v1/events", "acme")
			begin("/v1/messages/events", "acme")
		}
		refused(begin("/v1/events", "acme"), 429, "an eleventh connection", "10 connections of your tenant")
		refused(begin("/v1/messages/events", "acme"), 429, "an eleventh connection", "10 connections of your tenant")
		for range 50 - 11 - 10 {
			begin("/v1/messages/events", "full")
		}
		refused(begin("/v1/events", "full"), 503, "one more than fifty", "too many connections listen")
		stop()
		synctest.Wait()
		ctx, stop = context.WithCancel(t.Context())
		defer stop()
		for _, target := range []string{"/v1/events", "/v1/messages/events"} {
			if w := begin(target, "acme"); w.Code != 200 {
				t.Errorf("%s when they have ended: %d %s", target, w.Code, w.Body)
			}
		}
	})
}

// deadlineRecorder is a recorder that takes deadlines, which a stream sets.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

// follow sends a request whose answer does not end, with headers in pairs of a name and a value.
func follow(ctx context.Context, s http.Handler, target string, header ...string) *deadlineRecorder {
	r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	go s.ServeHTTP(w, r)
	return w
}

// Write keeps the bytes.
func (p *deadlineRecorder) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ResponseRecorder.Write(b)
}

// text returns the bytes so far.
func (p *deadlineRecorder) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Body.String()
}

// SetWriteDeadline does nothing.
func (*deadlineRecorder) SetWriteDeadline(time.Time) error { return nil }

// unreadableTimers answer only the reads that each page needs.
type unreadableTimers struct{ timer.Reader }

func (unreadableTimers) Parked(context.Context, timer.TenantID, int64, int) ([]timer.ParkedEvent, error) {
	return nil, nil
}

func (unreadableTimers) Firing(context.Context, time.Time) (timer.Pauses, error) { return nil, nil }

func (unreadableTimers) Stats(context.Context, timer.TenantID) (timer.Stats, error) {
	return timer.Stats{}, nil
}
