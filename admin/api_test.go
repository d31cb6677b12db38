package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// fired is when the timers of a [seeded] store have fired.
var fired = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// database returns an empty store.
func database(t testing.TB) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{Log: quiet})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// command returns a ScheduleTimer of a version.
func command(tenant, call string, due time.Time, version int64) timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key:     timer.Key{TenantID: timer.TenantID(tenant), ServiceCallID: timer.ServiceCallID(call)},
		Version: timer.Version{TimestampMS: version, CommandID: fmt.Sprintf("command-%d", version)},
		DueAt:   due,
	}
}

// seeded returns a store with timers in each state, of two tenants: order-1 has fired,
// order-2 is canceled, order-3 is overdue, order-4 is due in 2100, and globex has one
// that is due in 2101.
func seeded(t testing.TB) *sqlite.Store {
	t.Helper()
	s, ctx := database(t), t.Context()
	first := command("acme", "order-1", fired, 1)
	first.CorrelationID, first.Data = "req-7", `{"b":1e2, "a":"<é>"}`
	last := command("globex", "order-1", time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC), 5)
	last.CorrelationID = "req-7"
	all := []timer.ScheduleTimer{
		first,
		command("acme", "order-2", fired, 2),
		command("acme", "order-3", fired.Add(time.Hour), 3),
		command("acme", "order-4", time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), 4),
		last,
	}
	if _, err := s.Schedule(ctx, fired, all...); err != nil {
		t.Fatal(err)
	}
	cancel := timer.CancelTimer{Key: all[1].Key, Version: timer.Version{TimestampMS: 6, CommandID: "command-6"}}
	if _, err := s.Cancel(ctx, fired, cancel); err != nil {
		t.Fatal(err)
	}
	err := s.Update(ctx, func(tx timer.Tx) error {
		reached, err := tx.Reach(ctx, fired, 10, nil)
		if err != nil || len(reached) != 1 {
			return fmt.Errorf("reached %v: %w", reached, err)
		}
		return tx.Emit(ctx, reached[0].Event())
	})
	must(t, err)
	return s
}

// serving returns a server of the API.
func serving(t *testing.T, timers timer.Reader) *admin.Server {
	t.Helper()
	return admin.New(quiet, admin.Options{Addr: "127.0.0.1:8080", Monitor: watched(t), Timers: timers, Broker: channel(t)})
}

// ask sends a request without a body, and decodes the answer.
func ask(t *testing.T, s http.Handler, method, target string) (int, map[string]any, http.Header) {
	t.Helper()
	return send(t, s, method, target, "")
}

// send sends a request, and decodes the answer.
func send(t *testing.T, s http.Handler, method, target, body string, header ...string) (int, map[string]any, http.Header) {
	t.Helper()
	if body != "" {
		header = append(header, "Content-Type", "application/json")
	}
	w := request(s, method, target, body, header...)
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%s %s: %d %s: %v", method, target, w.Code, w.Body, err)
	}
	return w.Code, got, w.Result().Header
}

func TestGetAnswersWithATimer(t *testing.T) {
	t.Parallel()
	s := serving(t, seeded(t))
	code, got, header := ask(t, s, "GET", "/v1/tenants/acme/timers/order-1")
	event, _ := got["event"].(map[string]any)
	if code != 200 || header.Get("Content-Type") != "application/json" || event["state"] != "waiting" || event["id"] == "" {
		t.Fatalf("%d %v %v", code, header, got)
	}
	delete(got, "event")
	want := map[string]any{
		"tenantId": "acme", "serviceCallId": "order-1", "state": "Reached",
		"dueAt": "2026-01-01T00:00:00.000Z", "registeredAt": "2026-01-01T00:00:00.000Z", "reachedAt": "2026-01-01T00:00:00.000Z",
		"latenessMs": 0.0, "correlationId": "req-7", "commandId": "command-1", "timestampMs": 1.0,
		"data": map[string]any{"b": 100.0, "a": "<é>"}, "dataText": `{"b":1e2, "a":"<é>"}`, "dataBytes": 21.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, text := get(s, "/v1/tenants/acme/timers/order-1"); !strings.Contains(text, `"data":{"b":1e2,"a":"<é>"}`) {
		t.Errorf("the data are changed: %s", text)
	}
	if code, got, _ := ask(t, s, "GET", "/v1/tenants/acme/timers/order-2"); code != 200 || got["state"] != "Canceled" || got["canceledAt"] == nil || got["event"] != nil {
		t.Errorf("%d %v", code, got)
	}
}

// TestListsOfTimers asks for pages, and compares the keys in them.
func TestListsOfTimers(t *testing.T) {
	t.Parallel()
	s := serving(t, seeded(t))
	for target, want := range map[string]string{
		"/v1/tenants/acme/timers":                                          "acme.order-1 acme.order-2 acme.order-3 acme.order-4",
		"/v1/tenants/none/timers":                                          "",
		"/v1/tenants/acme/timers?state=Scheduled":                          "acme.order-3 acme.order-4",
		"/v1/tenants/acme/timers?correlationId=req-7":                      "acme.order-1",
		"/v1/tenants/acme/timers?dueFrom=2026-01-01T02:00:00%2B01:00":      "acme.order-3 acme.order-4",
		"/v1/tenants/acme/timers?dueFrom=2026-01-01T02:00:00+01:00":        "acme.order-3 acme.order-4",
		"/v1/tenants/acme/timers?dueBefore=2099-01-01T00:00:00Z":           "acme.order-1 acme.order-2 acme.order-3",
		"/v1/tenants/acme/timers?limit=2":                                  "acme.order-1 acme.order-2 + order-2",
		"/v1/tenants/acme/timers?limit=2&after=order-2&correlationId=none": "",
		"/v1/timers?correlationId=req-7":                                   "acme.order-1 globex.order-1",
		"/v1/timers?correlationId=req-7&limit=1":                           "acme.order-1",
		"/v1/timers?dueWithin=0":                                           "acme.order-3",
		"/v1/timers?dueWithin=36500d":                                      "acme.order-3 acme.order-4 globex.order-1",
	} {
		code, got, _ := ask(t, s, "GET", target)
		keys := []string{}
		timers, _ := got["timers"].([]any)
		for _, each := range timers {
			timer, _ := each.(map[string]any)
			keys = append(keys, fmt.Sprintf("%v.%v", timer["tenantId"], timer["serviceCallId"]))
		}
		text := strings.Join(keys, " ")
		if next, ok := got["next"]; ok {
			text += fmt.Sprintf(" + %v", next)
		}
		if code != 200 || timers == nil || text != want {
			t.Errorf("%s: %d %q, want %q: %v", target, code, text, want, got)
		}
	}
}

func TestTenantsAndStats(t *testing.T) {
	t.Parallel()
	s := serving(t, seeded(t))
	acme := map[string]any{"tenantId": "acme", "scheduled": 2.0, "reached": 1.0, "expired": 0.0, "canceled": 1.0}
	globex := map[string]any{"tenantId": "globex", "scheduled": 1.0, "reached": 0.0, "expired": 0.0, "canceled": 0.0}
	for target, want := range map[string]map[string]any{
		"/v1/tenants":              {"tenants": []any{acme, globex}},
		"/v1/tenants?limit=1":      {"tenants": []any{acme}, "next": "acme"},
		"/v1/tenants?after=acme":   {"tenants": []any{globex}},
		"/v1/tenants?after=globex": {"tenants": []any{}},
	} {
		if code, got, _ := ask(t, s, "GET", target); code != 200 || !cmp.Equal(want, got) {
			t.Errorf("%s: %d (-want +got):\n%s", target, code, cmp.Diff(want, got))
		}
	}
	code, got, _ := ask(t, s, "GET", "/v1/stats")
	if oldest, _ := got["oldest"].(string); code != 200 || oldest == "" {
		t.Errorf("%d %v", code, got)
	}
	delete(got, "oldest")
	want := map[string]any{
		"scheduled": 3.0, "reached": 1.0, "expired": 0.0, "canceled": 1.0, "nextDue": "2026-01-01T01:00:00.000Z",
		"overdue": 1.0, "oldestOverdue": "2026-01-01T01:00:00.000Z", "outbox": 1.0, "oldestDue": "2026-01-01T00:00:00.000Z", "parked": 0.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestProblems: what can't be answered is a problem that says why.
func TestProblems(t *testing.T) {
	t.Parallel()
	s := serving(t, seeded(t))
	for target, want := range map[string]struct {
		code int
		has  string
	}{
		"/v1/tenants/acme/timers/none":                        {404, "no such timer"},
		"/v1/tenants/acme/timers/a%2Fb":                       {422, "path.call"},
		"/v1/tenants/%2e%2e/timers/order-1":                   {422, "path.tenant"},
		"/v1/tenants/" + strings.Repeat("a", 65) + "/timers":  {422, "path.tenant"},
		"/v1/tenants/acme/timers/order-1/more":                {404, "no such path"},
		"/v1/tenants/acme/timers?state=scheduled":             {422, "query.state"},
		"/v1/tenants/acme/timers?stat=Scheduled":              {422, "unknown query parameter"},
		"/v1/tenants/acme/timers?limit=0":                     {422, "query.limit"},
		"/v1/tenants/acme/timers?limit=1001":                  {422, "query.limit"},
		"/v1/tenants/acme/timers?after=a%20b":                 {422, `after "a b"`},
		"/v1/tenants/acme/timers?dueFrom=tomorrow":            {422, "query.dueFrom: must be a duration such as 90m or 7d, or a time such as 2030-01-31T12:00:00Z: time \"tomorrow\" is not RFC 3339"},
		"/v1/tenants/acme/timers?dueBefore=2030-01-01T00:00Z": {422, "RFC 3339"},
		"/v1/tenants/acme/timers?correlationId=%C3%A9":        {422, "visible ASCII"},
		"/v1/timers": {422, "give correlationId or dueWithin"},
		"/v1/timers?correlationId=a&dueWithin=1h":    {422, "not both"},
		"/v1/timers?correlationId=a&after=b":         {422, "one page"},
		"/v1/timers?dueWithin=soon":                  {422, "duration"},
		"/v1/timers?dueWithin=-1s":                   {422, "duration"},
		"/v1/timers?dueWithin=1h&after=DROP%20TABLE": {422, "page of this store"},
		"/v1/tenants?after=-":                        {422, "query.after"},
		"/v1/none":                                   {404, "no such path"},
		"/v1":                                        {404, "no such path"},
		"/v1/dead-letters?reason=none":               {422, "detail:query.reason: expected value to be one of"},
		"/v1/dead-letters?since=soon":                {422, "query.since: must be a duration such as 90m or 7d, or a time such as 2030-01-31T12:00:00Z: time \"soon\" is not RFC 3339"},
	} {
		code, got, header := ask(t, s, "GET", target)
		text := fmt.Sprint(got)
		if code != want.code || got["status"] != float64(code) || !strings.Contains(text, want.has) || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s %v, want %d with %q", target, code, header.Get("Content-Type"), text, want.code, want.has)
		}
	}
	code, got, header := ask(t, s, "POST", "/v1/stats")
	if code != 405 || header.Get("Allow") != "GET, HEAD" || header.Get("Content-Type") != "application/problem+json" || !strings.Contains(fmt.Sprint(got), "GET, HEAD") {
		t.Errorf("POST: %d %v %v", code, header, got)
	}
}

// TestDatabaseThatFailsStaysInTheLog: the answer does not say what the database said.
func TestDatabaseThatFailsStaysInTheLog(t *testing.T) {
	t.Parallel()
	store := seeded(t)
	s := serving(t, store)
	must(t, store.Close())
	for _, target := range []string{"/v1/tenants/acme/timers/order-1", "/v1/tenants/acme/timers", "/v1/timers?dueWithin=1h", "/v1/timers?correlationId=a", "/v1/tenants", "/v1/stats"} {
		code, got, _ := ask(t, s, "GET", target)
		if text := fmt.Sprint(got); code != 503 || !strings.Contains(text, "did not answer") || strings.Contains(text, "sql") || strings.Contains(text, "closed") {
			t.Errorf("%s: %d %s", target, code, text)
		}
	}
}

// TestBodiesThatWouldBeIgnoredAreRefused: a tenant in a body must not stand for all tenants.
func TestBodiesThatWouldBeIgnoredAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	header := append(with("full"), "Content-Type", "application/json")
	for _, target := range []string{"POST /v1/firing:pause", "POST /v1/timers:refire?since=1h", "DELETE /v1/tenants/acme/timers/order-4", "POST /v1/parked:discard?all=true", "GET /v1/stats"} {
		method, path, _ := strings.Cut(target, " ")
		if w := request(s, method, path, `{"tenant":"acme"}`, header...); w.Code != 400 || !strings.Contains(w.Body.String(), "parameters in the query") {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if _, got, _ := send(t, s, "GET", "/v1/firing", "", with("full")...); got["paused"] != false {
		t.Errorf("after what was refused: %v", got)
	}
	for kind, code := range map[string]int{"text/plain": 415, "application/x-www-form-urlencoded": 415, "application/json; charset=utf-8": 202} {
		w := request(s, "PUT", "/v1/tenants/acme/timers/new", `{"in":"1h"}`, append(with("full"), "Content-Type", kind)...)
		if w.Code != code || code == 415 && !strings.Contains(w.Body.String(), "send application/json") {
			t.Errorf("%s: %d %s", kind, w.Code, w.Body)
		}
	}
}

// TestParametersThatWouldBeIgnoredAreRefused: one without a value must not stand for all tenants.
func TestParametersThatWouldBeIgnoredAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	for target, says := range map[string]string{
		"POST /v1/firing:pause?tenant=":                      "tenant has no value",
		"POST /v1/firing:resume?tenant=":                     "tenant has no value",
		"POST /v1/timers:refire?tenant=&since=1h":            "tenant has no value",
		"POST /v1/dead-letters:discard?tenant=acme&id=":      "id has no value",
		"POST /v1/firing:pause?tenant=acme&tenant=beta":      "tenant is given more than once",
		"GET /v1/tenants/acme/timers?state=Reached&state=":   "state has no value",
		"GET /v1/tenants/acme/timers?limit=1&limit=2":        "limit is given more than once",
		"DELETE /v1/tenants/acme?confirm=acme&confirm=other": "confirm is given more than once",
	} {
		method, path, _ := strings.Cut(target, " ")
		if code, text := do(s, method, path, with("full")...); code != 422 || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s, want %q", target, code, text, says)
		}
	}
	if _, got, _ := send(t, s, "GET", "/v1/firing", "", with("full")...); got["paused"] != false || got["tenants"] != nil {
		t.Errorf("after what was refused: %v", got)
	}
}

// TestUnknownPathsAreAnsweredForTheirCaller: a program gets a problem, a browser a page.
func TestUnknownPathsAreAnsweredForTheirCaller(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	for accept, want := range map[string]string{"": "application/problem+json", "application/json": "application/problem+json", "text/html,*/*": "text/html; charset=utf-8"} {
		for _, path := range []string{"/v2/x", "/none", "/timer/x"} {
			w := request(s, "GET", path, "", append(with("full"), "Accept", accept)...)
			if w.Code != 404 || w.Header().Get("Content-Type") != want || !strings.Contains(w.Body.String(), admin.NoPath) {
				t.Errorf("%s for %q: %d %v %s", path, accept, w.Code, w.Header(), w.Body)
			}
		}
	}
}

// TestFiringSaysWhatIs: parts that do not work, and a tenant that nobody knows.
func TestFiringSaysWhatIs(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, func(opt *admin.Options) {
		opt.Monitor = admin.NewMonitor(func(context.Context) []app.Check {
			return []app.Check{{Part: "store"}, {Part: "broker", Reason: "connection refused", Red: true}}
		}, quiet)
		opt.Monitor.Refresh(t.Context())
	})
	for _, target := range []string{"GET /v1/firing", "POST /v1/firing:resume", "GET /v1/stats"} {
		method, path, _ := strings.Cut(target, " ")
		if _, text := do(s, method, path, with("full")...); !strings.Contains(text, `"notReady":["broker: connection refused"]`) {
			t.Errorf("%s: %s", target, text)
		}
	}
	for tenant, hint := range map[string]bool{"acme": false, "nosuch": true} {
		_, got, _ := send(t, s, "POST", "/v1/firing:pause?tenant="+tenant, "", with("full")...)
		if has := strings.Contains(fmt.Sprint(got["hint"]), "has no timers"); has != hint {
			t.Errorf("the pause of %s: %v", tenant, got)
		}
	}
}

// uncounted are timers that the database can't count.
type uncounted struct{ timer.Reader }

func (uncounted) Stats(context.Context, timer.TenantID) (timer.Stats, error) {
	return timer.Stats{}, errors.New("disk full")
}

// TestNoHintIsAGuess: a tenant whose timers can't be counted may have some.
func TestNoHintIsAGuess(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, func(opt *admin.Options) { opt.Timers = uncounted{opt.Timers} })
	if code, got, _ := send(t, s, "POST", "/v1/firing:pause?tenant=acme", "", with("full")...); code != 200 || got["hint"] != nil {
		t.Errorf("%d %v", code, got)
	}
}

// TestListThatIsCutSaysSo: timers of a correlation id have one page.
func TestListThatIsCutSaysSo(t *testing.T) {
	t.Parallel()
	s := serving(t, seeded(t))
	for query, cut := range map[string]bool{"correlationId=req-7&limit=1": true, "correlationId=req-7&limit=2": true, "correlationId=req-7": false, "dueWithin=1h&limit=1": false} {
		if _, text := get(s, "/v1/timers?"+query); strings.Contains(text, "there may be more") != cut {
			t.Errorf("%s: %s", query, text)
		}
	}
}
