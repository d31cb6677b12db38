package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// marker is in all that belongs to tenants other than acme, and in no request.
const marker = "of-another-tenant"

// others are these tenants: requests name the first one.
var others = []timer.TenantID{"globex", marker}

// mark gives the others timers, also with the correlation id of one of acme, a parked event
// and a dead letter. It returns the number of the first parked event.
func mark(t *testing.T, store *sqlite.Store, b *gochannel.Broker) (seq int64) {
	t.Helper()
	ctx, due := t.Context(), time.Now().Add(30*time.Minute)
	for _, tenant := range others {
		first, second := command(string(tenant), "call-1", due, 10), command(string(tenant), marker+"-call", due, 11)
		first.CorrelationID, first.Data, second.CorrelationID = marker, `{"is":"`+marker+`"}`, "req-7"
		if _, err := store.Schedule(ctx, time.Now(), first, second); err != nil {
			t.Fatal(err)
		}
		err := store.Update(ctx, func(tx timer.Tx) error { return tx.Emit(ctx, reachedBy(tenant)) })
		must(t, err)
		table := store.Outbox().Table
		rows, err := table.Head(ctx, 0, 10)
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		must(t, table.Park(ctx, fired, rows[0].Place, marker))
		if seq == 0 {
			seq = rows[0].Seq
		}
		refuse(t, b, string(tenant), "letter-1", marker, marker, 0)
	}
	return seq
}

// reachedBy is an event of one of the others.
func reachedBy(tenant timer.TenantID) timer.DueTimeReached {
	return timer.DueTimeReached{Key: timer.Key{TenantID: tenant, ServiceCallID: marker}, CorrelationID: marker, CommandID: marker, DueAt: fired, ReachedAt: fired}
}

// TestNoRouteShowsOtherTenants asks each GET there is with the token of acme, by name and
// by number, and with the token of all, which finds the others.
func TestNoRouteShowsOtherTenants(t *testing.T) {
	t.Parallel()
	b, events := channel(t), admin.NewEvents()
	limits, err := quota.New(quota.Config{Tenants: map[timer.TenantID]quota.Limits{marker: {Live: 10}}}, timer.ClockFunc(time.Now), quota.Options{})
	must(t, err)
	s, store := operated(t, func(opt *admin.Options) {
		opt.Broker, opt.Events, opt.Quotas, opt.Monitor = b, events, limits, watched(t)
		opt.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, marker) })
	})
	seq := fmt.Sprint(mark(t, store, b))
	rules, _ := s.Rules()
	found := make(map[string]bool)
	for route := range rules {
		path, isGet := strings.CutPrefix(route, "GET ")
		if !isGet {
			continue
		}
		path = strings.NewReplacer("{call}", "call-1", "{id}", "letter-1", "{seq}", seq, "{deed}", "cancel", "{kind}", "commands", "{$}", "").Replace(path)
		for _, query := range []string{
			"?tenant=globex", "", "?tenant=acme", "?correlationId=req-7", "?dueWithin=1h", "?q=req-7", "?q=globex", "?tenant=globex&call=call-1", "?tenant=globex&id=letter-1", "?body=true", "?body=true&id=letter-1", "?body=true&seq=" + seq, "?after=" + seq,
		} {
			endless := path == "/v1/events" || path == "/v1/messages/commands"
			if endless && query != "?tenant=globex" {
				continue // does not end
			}
			for _, tenant := range []string{"globex", "acme"} {
				target := strings.ReplaceAll(path, "{tenant}", tenant) + query
				if code, body := get(s, target, with("acme")...); strings.Contains(body, marker) || code >= 500 {
					t.Errorf("%s, to acme: %d %s", target, code, body)
				}
				if !endless {
					_, body := get(s, target, with("full")...)
					found[route] = found[route] || strings.Contains(body, marker)
				}
			}
		}
	}
	for _, route := range []string{
		"GET /timers", "GET /timer", "GET /search", "GET /tenants", "GET /parked", "GET /dead-letters", "GET /metrics",
		"GET /v1/tenants/{tenant}/timers/{call}", "GET /v1/tenants/{tenant}/timers", "GET /v1/timers", "GET /v1/tenants", "GET /v1/parked",
		"GET /v1/dead-letters", "GET /v1/upcoming", "GET /v1/quotas",
	} {
		if !found[route] {
			t.Errorf("%s does not show the others to the token of all: this test would see no mistake of it", route)
		}
	}
}

// TestNoEventTellsOfOtherTenants listens with a token of acme.
func TestNoEventTellsOfOtherTenants(t *testing.T) {
	t.Parallel()
	events := admin.NewEvents()
	s, _ := operated(t, func(opt *admin.Options) { opt.Events = events })
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	all, acme := listen(t, server.URL, "", "full"), listen(t, server.URL, "", "acme")
	tell := events.Hooks()
	for _, tenant := range append(others, "acme") {
		d := reachedBy(tenant)
		m := message.NewMessage(marker, nil)
		m.Metadata.Set(envelope.HeaderTenantID, string(tenant))
		for _, outcome := range []string{"scheduled", "canceled", handlers.OutcomeInvalid, handlers.OutcomeOverQuota, "stale"} {
			tell.Watch()(handlers.Decision{Result: handlers.Result{Outcome: outcome}, Key: d.Key})
		}
		tell.Reached([]timer.DueTimeReached{d})
		tell.Published(time.Now(), []*message.Message{m})
		tell.Parked(m, marker)
	}
	for range 8 {
		if e := <-acme; e.data["tenantId"] != "acme" {
			t.Errorf("acme hears %v", e)
		}
	}
	for i := range 24 {
		if e := <-all; (e.data["tenantId"] == "acme") != (i >= 16) {
			t.Errorf("the token of all hears, as event %d: %v", i, e)
		}
	}
}
