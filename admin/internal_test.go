package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

// TestAuditRemembersTheLastActions: two hundred of them, newest first, and the log has
// each.
func TestAuditRemembersTheLastActions(t *testing.T) {
	t.Parallel()
	log := new(logbuf.Buffer)
	a := &audit{log: slog.New(slog.NewTextHandler(log, nil))}
	ctx := withAccess(t.Context(), access{who: "10.0.0.1"})
	for i := range 250 {
		a.add(ctx, "cancel timer", fmt.Sprintf("acme.order-%d", i), "done", nil)
	}
	a.add(ctx, "discard dead letter", "acme \"1\"", "", huma.Error404NotFound("no such\ndead letter"))
	got := a.recent()
	if len(got) != 200 || got[0].Result != "refused: no such\ndead letter" || got[1].Target != "acme.order-249" || got[199].Target != "acme.order-51" || got[1].Who != "10.0.0.1" {
		t.Errorf("%d: %+v ... %+v", len(got), got[0], got[len(got)-1])
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 251 || !strings.Contains(lines[250], `msg="an operator changed something" who=10.0.0.1 what="discard dead letter" target="acme \"1\"" result="refused: no such\ndead letter"`) {
		t.Errorf("%d lines, the last: %s", len(lines), lines[len(lines)-1])
	}
}

// TestAuditSaysWhatWasRefusedAndWhatFailed, and what was done before it failed.
func TestAuditSaysWhatWasRefusedAndWhatFailed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		result string
		err    error
		want   string
	}{
		{"", nil, "done"},
		{"2 of 3", nil, "2 of 3"},
		{"", errOtherTenant, "refused: " + errOtherTenant.Error()},
		{"0 of 1", noParked("17"), `refused: there is no such parked event: "17"`},
		{"", timer.Invalid(timer.ReasonBadField, "no tenant"), "refused: invalid: no tenant"},
		{"", errNoBroker, "failed: " + errNoBroker.Error()},
		{"400 timers deleted", errors.New("disk full"), "failed: disk full; 400 timers deleted"},
	} {
		a := &audit{log: slog.New(slog.DiscardHandler)}
		a.add(t.Context(), "anything", "acme", test.result, test.err)
		if got := a.recent()[0].Result; got != test.want {
			t.Errorf("%q, %v: %q, want %q", test.result, test.err, got, test.want)
		}
	}
}

// TestConnectionsWithTLSAreCounted by the connection over TCP below it.
func TestConnectionsWithTLSAreCounted(t *testing.T) {
	t.Parallel()
	c := &connections{most: 1, full: func() {}, open: make(map[net.Conn]*connection)}
	conn, other := net.Pipe()
	defer other.Close()
	c.admit(conn)
	over := tls.Server(conn, new(tls.Config))
	if c.observe(over, http.StateActive); !c.open[conn].busy {
		t.Error("a request is not noticed")
	}
	c.loggedIn(c.context(t.Context(), over))
	if !c.open[conn].login {
		t.Error("a token is not noticed")
	}
	if c.observe(over, http.StateClosed); len(c.open) > 0 {
		t.Error("the end is not noticed")
	}
}

// TestHooksCostNothingWithoutListeners: no allocation, and nothing is made of what
// happens.
func TestHooksCostNothingWithoutListeners(t *testing.T) {
	h := NewEvents().Hooks()
	events, messages := make([]timer.DueTimeReached, 1000), make([]*message.Message, 1000)
	for i := range messages {
		messages[i] = message.NewMessage(uuid.NewString(), nil)
	}
	if n := testing.AllocsPerRun(100, func() {
		if h.Watch() != nil {
			t.Error("it watches")
		}
		h.Reached(events)
		h.Published(time.Time{}, messages)
		h.Parked(nil, "")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSlowListenerIsDropped: it delays nothing, others get all, and it gets to know.
func TestSlowListenerIsDropped(t *testing.T) {
	t.Parallel()
	e := NewEvents()
	slow, other := e.listen("", nil), e.listen("globex", nil)
	decide := e.Hooks().Watch()
	for i := range maxQueued + 10 {
		decide(handlers.Decision{Result: handlers.Result{Outcome: "scheduled"}, Key: timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprint(i))}})
	}
	decide(handlers.Decision{Result: handlers.Result{Outcome: "canceled"}, Key: timer.Key{TenantID: "globex"}})
	n := 0
	for range slow.queue { // it is closed
		n++
	}
	if n != maxQueued {
		t.Errorf("the slow one got %d events", n)
	}
	if event := string(<-other.queue); !strings.HasPrefix(event, "event: canceled\n") || len(other.queue) != 0 {
		t.Errorf("the other one got %s", event)
	}
	e.remove(slow)
	e.remove(other)
	if e.Hooks().Watch() != nil {
		t.Error("it watches without a listener")
	}
}

// TestRequestsShareTheirChecks: checks that run at the same time would take each other for
// hanging.
func TestRequestsShareTheirChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		m := NewMonitor(func(context.Context) []app.Check {
			runs++
			time.Sleep(50 * time.Millisecond)
			return []app.Check{{Part: "store"}}
		}, slog.New(slog.DiscardHandler))
		m.asked = true
		var requests sync.WaitGroup
		for range 100 {
			requests.Go(func() {
				if h := m.Health(); !h.Ready() {
					t.Errorf("%+v", h.Parts)
				}
			})
		}
		requests.Wait()
		if runs != 1 {
			t.Errorf("checked %d times", runs)
		}
	})
}

// manyParked has a number of parked events of one reason, and then one of another.
type manyParked struct {
	timer.Reader
	events int64
}

func (m manyParked) Parked(_ context.Context, _ timer.TenantID, after int64, limit int) (page []timer.ParkedEvent, err error) {
	for seq := after + 1; seq <= m.events+1 && len(page) < limit; seq++ {
		reason := "Too large"
		if seq > m.events {
			reason = "no such topic"
		}
		page = append(page, timer.ParkedEvent{Seq: seq, Reason: reason, CorrelationID: "req-7", ParkedAt: time.Unix(seq, 0)})
	}
	return page, nil
}

// TestSelectionOfParkedEventsGoesOn behind events that do not fit, in bounded reads.
func TestSelectionOfParkedEventsGoesOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of    selection
		limit int
		pages int
		found int
	}{
		"all":                     {selection{}, 100, 100, 9951},
		"one behind all others":   {selection{Reason: "TOPIC"}, 100, 1, 1},
		"one behind many reads":   {selection{Reason: "topic"}, 10, 10, 1},
		"from a time on":          {selection{From: time.Unix(9900, 0)}, 100, 1, 52},
		"of a correlation id":     {selection{Correlation: "req-7", Reason: "too large", From: time.Unix(9901, 0)}, 25, 6, 50},
		"of another":              {selection{Correlation: "req-8"}, 100, 1, 0},
		"a page that is full":     {selection{From: time.Unix(9902, 0)}, 50, 3, 50},
		"more than one full page": {selection{From: time.Unix(9002, 0)}, 500, 2, 950},
	} {
		pages, found, after := 0, 0, ""
		for {
			page, next, err := test.of.parked(t.Context(), manyParked{events: 9950}, after, test.limit)
			if err != nil || len(page) > test.limit || next != "" && next == after {
				t.Fatal(name, len(page), next, err)
			}
			pages, found, after = pages+1, found+len(page), next
			if after == "" {
				break
			}
		}
		if pages != test.pages || found != test.found {
			t.Errorf("%s: %d events in %d pages, want %d in %d", name, found, pages, test.found, test.pages)
		}
	}
}
