package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/timer"
)

// A heardEvent is an event that a client gets.
type heardEvent struct {
	name string
	data map[string]any
}

// listen connects to /v1/events of a server that listens, and returns the events without the
// heartbeats.
func listen(t *testing.T, address, query, token string) <-chan heardEvent {
	t.Helper()
	lines := stream(t, address+"/v1/events"+query, token, "text/event-stream")
	events := make(chan heardEvent, 100)
	connected, once := make(chan struct{}), new(sync.Once)
	go func() {
		defer close(events)
		var one heardEvent
		for lines.Scan() {
			switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
			case "event":
				one.name = value
			case "data":
				one.data = nil
				_ = json.Unmarshal([]byte(value), &one.data)
			case "":
				switch one.name {
				case "heartbeat":
					once.Do(func() { close(connected) })
				default:
					events <- one
				}
			}
		}
	}()
	<-connected
	return events
}

// TestEventsTellWhatHappens to timers, to all who may know.
func TestEventsTellWhatHappens(t *testing.T) {
	t.Parallel()
	store, b, counters := seeded(t), channel(t), new(app.Counters)
	events := admin.NewEvents()
	a, err := app.New(store, b, quiet, app.Options{Counters: counters, Hooks: []app.Hooks{events.Hooks()}, Retention: 50 * 365 * 24 * time.Hour})
	must(t, err)
	s := admin.New(quiet, admin.Options{Addr: "127.0.0.1:0", Token: "full", Monitor: watched(t), Timers: store, Broker: b, Events: events})
	useTokens(t, s, tenantTokens)
	must(t, s.Listen(t.Context()))
	stop := during(t, s.Run)
	all, filtered, only, tenant := listen(t, s.Address(), "", "full"), listen(t, s.Address(), "?tenant=globex", "full"), listen(t, s.Address(), "?only=published&only=canceled", "full"), listen(t, s.Address(), "", "acme")

	during(t, a.Run)
	<-a.Running()
	// expect waits for events, in any order: "name tenant.call reason".
	expect := func(from <-chan heardEvent, want ...string) {
		t.Helper()
		for e := range from {
			if call := e.data["serviceCallId"]; e.data["tenantId"] == "acme" && (call == "order-1" || call == "order-3") {
				continue // waited in the outbox, and was overdue
			}
			got := fmt.Sprintf("%s %v.%v", e.name, e.data["tenantId"], e.data["serviceCallId"])
			if e.data["reason"] != nil {
				got += fmt.Sprint(" ", e.data["reason"])
			}
			i := slices.Index(want, got)
			if i < 0 || e.data["at"] == "" {
				t.Errorf("%s %v, want one of %q", got, e.data, want)
				return
			}
			if want = slices.Delete(want, i, i+1); len(want) == 0 {
				return
			}
		}
		t.Errorf("ended, and wanted %q", want)
	}
	put := func(path, body string) { send(t, s, "PUT", "/v1/tenants/"+path+"?wait=20s", body, with("full")...) }
	put("acme/timers/new", `{"in":"0"}`)
	fired := []string{"scheduled acme.new", "reached acme.new", "published acme.new"}
	expect(all, slices.Clone(fired)...)
	publishLines(t, s, lineOf("acme", "new"), with("full")...)
	expect(all, "ignored acme.new already_reached")
	put("globex/timers/far", `{"dueAt":"2199-01-01T00:00:00Z"}`)
	expect(all, "dead-lettered globex.far beyond_horizon")
	send(t, s, "DELETE", "/v1/tenants/globex/timers/order-1?wait=20s", "", with("full")...)
	expect(all, "canceled globex.order-1")
	expect(filtered, "dead-lettered globex.far beyond_horizon", "canceled globex.order-1")
	expect(only, "published acme.new", "canceled globex.order-1")
	expect(tenant, append(fired, "ignored acme.new already_reached")...)

	for query, want := range map[string]int{"?tenant=globex": 404, "?only=none": 422, "?tenant=a/b": 422} {
		token := "acme"
		if want == 422 {
			token = "full"
		}
		if code, text := do(s, "GET", "/v1/events"+query, with(token)...); code != want {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}
	if code, _ := do(s, "HEAD", "/v1/events", with("full")...); code != 200 {
		t.Errorf("HEAD: %d", code)
	}
	stop()
	for name, from := range map[string]<-chan heardEvent{"all": all, "filtered": filtered, "only": only, "tenant": tenant} {
		var last heardEvent
		for e := range from {
			last = e
		}
		if last.name != "end" || last.data["reason"] != "stopping" {
			t.Errorf("%s: the last event: %+v", name, last)
		}
	}
}

// TestEventsOutliveTheTimeoutsOfRequests takes a minute.
func TestEventsOutliveTheTimeoutsOfRequests(t *testing.T) {
	longtest.Skip(t, "waits until the timeouts of requests have passed")
	t.Parallel()
	s := admin.New(quiet, admin.Options{Addr: "127.0.0.1:0", Monitor: watched(t), Timers: seeded(t), Events: admin.NewEvents()})
	must(t, s.Listen(t.Context()))
	during(t, s.Run)
	lines := stream(t, s.Address()+"/v1/events", "", "text/event-stream")
	for n := 0; n < 3; {
		if !lines.Scan() {
			t.Fatalf("ended after %d: %v", n, lines.Err())
		}
		if lines.Text() == "event: heartbeat" {
			n++
		}
	}
}

// TestEventsEndWithTheirToken or session, at the next heartbeat.
func TestEventsEndWithTheirToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := admin.New(quiet, admin.Options{Token: "full", Monitor: admin.NewMonitor(nil, quiet), Timers: unreadableTimers{}, Events: admin.NewEvents()})
		useTokens(t, s, map[timer.TenantID][]string{"acme": {"removed", "moved", "kept"}})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		listen := func(name, value string) *deadlineRecorder {
			return follow(ctx, s, "/v1/events?only=published", name, value)
		}
		login := func() (cookie string) {
			return "timer_session=" + post(s, "/login", url.Values{"token": {"full"}}).Result().Cookies()[0].Value
		}
		expires := login()
		ended := map[string]*deadlineRecorder{
			"a removed token": listen("Authorization", "Bearer removed"), "a token of another tenant now": listen("Authorization", "Bearer moved"),
		}
		kept := map[string]*deadlineRecorder{
			"a token": listen("Authorization", "Bearer kept"), "the token of all": listen("Authorization", "Bearer full"), "a session": listen("Cookie", expires),
		}
		expect := func(all map[string]*deadlineRecorder, end bool) {
			t.Helper()
			synctest.Wait()
			for what, w := range all {
				if body := w.text(); strings.HasSuffix(body, "event: end\ndata: {\"reason\":\"token\"}\n\n") != end || !strings.HasPrefix(body, "event: heartbeat") {
					t.Errorf("%s: %s", what, body)
				}
			}
		}
		expect(ended, false)
		useTokens(t, s, map[timer.TenantID][]string{"acme": {"kept"}, "globex": {"moved"}})
		time.Sleep(15 * time.Second)
		expect(ended, true)
		expect(kept, false)
		time.Sleep(12 * time.Hour)
		expect(map[string]*deadlineRecorder{"an expired session": kept["a session"]}, true)
		delete(kept, "a session")
		expect(kept, false)
	})
}
