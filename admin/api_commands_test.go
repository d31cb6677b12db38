package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// channel returns a broker that runs.
func channel(t testing.TB) *gochannel.Broker {
	t.Helper()
	b := gochannel.New(gochannel.Options{}, quiet)
	during(t, b.Run)
	for b.Ready(t.Context()) != nil {
		runtime.Gosched()
	}
	return b
}

// during runs a part until stop is called, or the test ends.
func during(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// stream sends a request whose answer does not end, and returns its lines, once it begins.
func stream(t *testing.T, url, token, kind string) *bufio.Scanner {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != 200 || answer.Header.Get("Content-Type") != kind {
		t.Fatal(answer, err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return bufio.NewScanner(answer.Body)
}

// eventually polls until something has happened.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !happened() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited a minute in vain for %s", what)
		}
	}
}

// working returns a server of a service that handles commands.
func working(t *testing.T, opt app.Options) (*admin.Server, *sqlite.Store) {
	t.Helper()
	store, b := seeded(t), channel(t)
	a, err := app.New(store, b, quiet, opt)
	must(t, err)
	during(t, a.Run)
	<-a.Running() // gochannel keeps nothing for a subscriber that is not there yet
	return admin.New(quiet, admin.Options{Addr: "127.0.0.1:8080", Monitor: watched(t), Timers: store, Broker: b}), store
}

// TestCommandsArePublished reads the commands topic.
func TestCommandsArePublished(t *testing.T) {
	t.Parallel()
	b := channel(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: b})
	messages, err := b.Tail().Subscribe(t.Context(), b.Routing().CommandsOf("acme"))
	must(t, err)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	due := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		method, target, body string
		want                 any
	}{
		"due at": {
			"PUT", "/v1/tenants/acme/timers/new", `{"dueAt":"2030-01-31T13:00:00+01:00","correlationId":"req-9","data":{"a": 1e999},"timestampMs":1795348800000}`,
			timer.ScheduleTimer{Key: timer.Key{TenantID: "acme", ServiceCallID: "new"}, Version: timer.Version{TimestampMS: 1795348800000}, DueAt: due, CorrelationID: "req-9", Data: `{"a": 1e999}`},
		},
		"null for absent": {
			"PUT", "/v1/tenants/acme/timers/new", `{"in":null,"dueAt":"2030-01-31T12:00:00Z","correlationId":null,"data":null,"timestampMs":1795348800000}`,
			timer.ScheduleTimer{Key: timer.Key{TenantID: "acme", ServiceCallID: "new"}, Version: timer.Version{TimestampMS: 1795348800000}, DueAt: due, Data: `null`},
		},
		"cancel": {
			"DELETE", "/v1/tenants/acme/timers/order-4?correlationId=req-9", "",
			timer.CancelTimer{Key: timer.Key{TenantID: "acme", ServiceCallID: "order-4"}, CorrelationID: "req-9"},
		},
	} {
		code, got, _ := send(t, s, test.method, test.target, test.body, "Traceparent", trace)
		m := <-messages
		m.Ack()
		decoded, err := envelope.Decode(m.Payload)
		if err != nil || code != 202 || got["result"] != "published" || got["id"] != decoded.ID || name != "null for absent" && got["correlationId"] != "req-9" || m.UUID != decoded.ID {
			t.Fatalf("%s: %d %v, and %s: %v", name, code, got, m.Payload, err)
		}
		switch c := decoded.Payload.(type) {
		case timer.ScheduleTimer:
			if m.Metadata.Get(envelope.HeaderTraceParent) != trace {
				t.Errorf("%s: no trace in %v", name, m.Metadata)
			}
			c.CommandID = ""
			decoded.Payload = c
		case timer.CancelTimer:
			c.Version = timer.Version{}
			decoded.Payload = c
		}
		if diff := cmp.Diff(test.want, decoded.Payload); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
	before := time.Now()
	_, got, _ := send(t, s, "PUT", "/v1/tenants/acme/timers/new", `{"in":"1h"}`)
	dueAt, err := time.Parse(time.RFC3339, fmt.Sprint(got["dueAt"]))
	if err != nil || dueAt.Before(before.Add(time.Hour)) || dueAt.After(time.Now().Add(time.Hour+time.Second)) {
		t.Errorf("in 1h: %v", got)
	}
}

// TestWaitAnswersWhatBecameOfACommand has a service handle the commands.
func TestWaitAnswersWhatBecameOfACommand(t *testing.T) {
	t.Parallel()
	s, store := working(t, app.Options{Retention: 50 * 365 * 24 * time.Hour})
	in1h := `{"in":"1h"}`
	old := `{"in":"1h","timestampMs":1000000000000}`
	for _, test := range []struct {
		method, call, body string
		code               int
		result, reason     string
	}{
		{"PUT", "new", `{"in":"1h","data":[1]}`, 200, "scheduled", ""},
		{"PUT", "new", in1h, 200, "scheduled", ""},
		{"PUT", "new", old, 409, "", "stale"},
		{"DELETE", "new", "", 200, "canceled", ""},
		{"DELETE", "new", "", 200, "canceled", ""},
		{"PUT", "new", old, 409, "", "stale"},
		{"PUT", "new", in1h, 200, "scheduled", ""},
		{"PUT", "order-1", in1h, 409, "", "already_reached"},
		{"DELETE", "order-1", "", 409, "", "already_reached"},
		{"DELETE", "tombstone", "", 200, "canceled", ""},
		{"PUT", "far", `{"dueAt":"2199-01-01T00:00:00Z"}`, 422, "", "beyond_horizon"},
		{"PUT", "ancient", `{"in":"1h","timestampMs":5}`, 422, "", "bad_time"},
	} {
		code, got, header := send(t, s, test.method, "/v1/tenants/acme/timers/"+test.call+"?wait=20s", test.body)
		result, _ := got["result"].(string)
		reason, _ := got["reason"].(string)
		if code != test.code || result != test.result || reason != test.reason {
			t.Errorf("%s %s %s: %d %v, want %d %s%s", test.method, test.call, test.body, code, got, test.code, test.result, test.reason)
		}
		if code >= 400 && (header.Get("Content-Type") != "application/problem+json" || got["status"] != float64(code) || got["detail"] == "") {
			t.Errorf("%s %s: no problem: %v %v", test.method, test.call, header, got)
		}
	}
	entry, err := store.Get(t.Context(), timer.Key{TenantID: "acme", ServiceCallID: "new"})
	if err != nil || entry.State != timer.Scheduled {
		t.Errorf("%+v %v", entry, err)
	}
}

// TestCommandsOfPeopleWin over the version of a producer whose clock is ahead.
func TestCommandsOfPeopleWin(t *testing.T) {
	t.Parallel()
	s, store := working(t, app.Options{})
	calls := []string{"api", "moved", "page", "far"}
	for i, ahead := range []time.Duration{20 * time.Second, time.Hour, 20 * time.Second, 25 * time.Hour} {
		c := command("acme", calls[i], time.Now().Add(time.Hour), time.Now().Add(ahead).UnixMilli())
		if _, err := store.Schedule(t.Context(), time.Now(), c); err != nil {
			t.Fatal(err)
		}
	}
	if code, got, _ := send(t, s, "DELETE", "/v1/tenants/acme/timers/api?wait=20s", ""); code != 200 || got["result"] != "canceled" {
		t.Errorf("%d %v", code, got)
	}
	if code, got, _ := send(t, s, "PUT", "/v1/tenants/acme/timers/moved?wait=20s", `{"in":"2h"}`); code != 200 || got["result"] != "scheduled" {
		t.Errorf("%d %v", code, got)
	}
	if code, body := submit(s, "/do/cancel", url.Values{"tenant": {"acme"}, "call": {"page"}}); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	eventually(t, "a timer that the page has canceled", func() bool {
		e, err := store.Get(t.Context(), timer.Key{TenantID: "acme", ServiceCallID: "page"})
		return err == nil && e.State == timer.Canceled
	})
	for _, query := range []string{"", "?wait=20s"} {
		if code, got, _ := send(t, s, "DELETE", "/v1/tenants/acme/timers/far"+query, ""); code != 409 || got["reason"] != "stale" || !strings.Contains(fmt.Sprint(got), "max_clock_ahead") {
			t.Errorf("%d %v", code, got)
		}
	}
}

// TestWaitEnds: no service handles the command.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: channel(t)})
	code, got, _ := send(t, s, "PUT", "/v1/tenants/acme/timers/new?wait=1ms", `{"in":"1h"}`)
	if code != 202 || got["result"] != "published" {
		t.Errorf("%d %v", code, got)
	}
}

// TestCommandsThatAreRefused: none of these is published.
func TestCommandsThatAreRefused(t *testing.T) {
	t.Parallel()
	store, b := seeded(t), channel(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: store, Broker: b})
	messages, err := b.Tail().Subscribe(t.Context(), b.Routing().CommandsOf("acme"))
	must(t, err)
	const in1h = `{"in":"1h"}`
	for _, test := range []struct {
		method, call, body string
		code               int
		has                string
		header             []string
	}{
		{"PUT", "order-4", in1h, 412, "Scheduled", []string{"If-None-Match", "*"}},
		{"PUT", "order-1", in1h, 412, "Reached", []string{"If-None-Match", "*"}},
		{"PUT", "order-9", in1h, 422, "If-None-Match", []string{"If-None-Match", `"a"`}},
		{"PUT", "order-9", `{}`, 422, "give dueAt or in", nil},
		{"PUT", "order-9", ``, 400, "body is required", nil},
		{"PUT", "order-9", `null`, 422, "give dueAt or in", nil},
		{"PUT", "order-9", `{"in":"1h","dueAt":"2030-01-31T12:00:00Z"}`, 422, "not both", nil},
		{"PUT", "order-9", `{"dueAt":"2030-01-31T12:00:00"}`, 422, "no zone", nil},
		{"PUT", "order-9", `{"In":"1h"}`, 422, "there is no field \"In\"", nil},
		{"PUT", "order-9", `{"in":"1h","in":"2h"}`, 422, "duplicate", nil},
		{"PUT", "order-9", `{"in":3600}`, 422, "kind number does not fit at \"/in\"", nil},
		{"PUT", "order-9", `{"in":"1h","data":"` + strings.Repeat("x", 20_000) + `"}`, 413, "too large", nil},
		{"PUT", "order-9?wait=1m", in1h, 422, "at most 20s", nil},
		{"PUT", "order-9", `{"in":"1000"}`, 422, "with a unit", nil},
		{"PUT", "order-1", in1h, 409, "already_reached", nil},
		{"DELETE", "order-1", "", 409, "already_reached", nil},
		{"PUT", "order-4", `{"in":"1h","timestampMs":1}`, 409, "stale", nil},
		{"PUT", "a%2Fb", in1h, 422, "path.call", nil},
		{"DELETE", "order-4?correlationId=a%20b", "", 422, "correlationId", nil},
	} {
		code, got, _ := send(t, s, test.method, "/v1/tenants/acme/timers/"+test.call, test.body, test.header...)
		if text := fmt.Sprint(got); code != test.code || !strings.Contains(text, test.has) {
			t.Errorf("%s %s %.60s: %d %.300s, want %d with %q", test.method, test.call, test.body, code, text, test.code, test.has)
		}
	}
	if code, _, _ := send(t, s, "PUT", "/v1/tenants/acme/timers/last", in1h, "If-None-Match", "*"); code != 202 {
		t.Error(code)
	}
	m := <-messages
	m.Ack()
	if m.Metadata.Get(envelope.HeaderServiceCallID) != "last" {
		t.Errorf("published: %s", m.Payload)
	}
}

// TestBrokerThatIsAway answers 503.
func TestBrokerThatIsAway(t *testing.T) {
	t.Parallel()
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: gochannel.New(gochannel.Options{}, quiet)})
	for _, query := range []string{"", "?wait=1s"} {
		code, got, _ := send(t, s, "PUT", "/v1/tenants/acme/timers/new"+query, `{"in":"1h"}`)
		if code != 503 || !strings.Contains(fmt.Sprint(got), "the broker did not answer") {
			t.Errorf("%s: %d %v", query, code, got)
		}
	}
}

// TestACommandThatWouldBeADeadLetterIsRefused at once and not published, by each way that takes
// commands, with the words of the dead letter.
func TestACommandThatWouldBeADeadLetterIsRefused(t *testing.T) {
	t.Parallel()
	store, b := seeded(t), channel(t)
	limits, err := quota.New(quota.Config{Tenants: map[timer.TenantID]quota.Limits{"near": {Horizon: time.Hour}}}, timer.ClockFunc(time.Now), quota.Options{})
	must(t, err)
	a, err := app.New(store, b, quiet, app.Options{Quotas: limits})
	must(t, err)
	during(t, a.Run)
	<-a.Running()
	later := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: store, Broker: b}) // it only publishes
	atOnce := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: store, Broker: b, Service: a})
	messages, err := b.Tail().Subscribe(t.Context(), b.Routing().CommandsOf("acme"))
	must(t, err)
	numbers := regexp.MustCompile(`service, which is [^;]*`) // the clock
	for i, test := range []struct{ tenant, body, reason, has string }{
		{"acme", `{"in":"1h","timestampMs":1795348800000000}`, "bad_time", "it looks like microseconds"},
		{"acme", fmt.Sprintf(`{"in":"1h","timestampMs":%d}`, time.Now().Add(30*24*time.Hour).UnixMilli()), "bad_time", "ahead of the clock"},
		{"acme", `{"in":"1h","timestampMs":5}`, "bad_time", "before the year 2000"},
		{"acme", `{"in":"9000d"}`, "beyond_horizon", "beyond the horizon of 87600h"},
		{"acme", `{"dueAt":"2199-01-01T00:00:00Z"}`, "beyond_horizon", "beyond the horizon of 87600h"},
		{"near", `{"in":"2h"}`, "beyond_horizon", "beyond the horizon of 1h"},
	} {
		path := fmt.Sprintf("/v1/tenants/%s/timers/new-%d", test.tenant, i)
		code, letter, _ := send(t, later, "PUT", path+"?wait=20s", test.body)
		detail, refused := strings.CutPrefix(fmt.Sprint(letter["detail"]), "refused: ")
		if code != 422 || !refused || letter["reason"] != test.reason || letter["id"] == nil {
			t.Errorf("%s: its dead letter: %d %v", test.body, code, letter)
		}
		m := <-messages
		m.Ack()
		detail = numbers.ReplaceAllString(detail, "")
		for _, query := range []string{"", "?wait=20s"} {
			code, got, header := send(t, atOnce, "PUT", path+query, test.body)
			text := numbers.ReplaceAllString(fmt.Sprint(got["detail"]), "")
			if code != 422 || got["reason"] != test.reason || got["id"] != nil || header.Get("Content-Type") != "application/problem+json" || !strings.Contains(text, test.has) {
				t.Errorf("%s%s: %d %v, want %s with %q", test.body, query, code, got, test.reason, test.has)
			}
			if in := strings.Contains(test.body, `"in"`) && test.reason == "beyond_horizon"; !in && text != detail {
				t.Errorf("%s: %q, but its dead letter %q", test.body, text, detail)
			}
		}
	}
	// Of several lines only the invalid ones are refused.
	wrong := strings.Replace(lineOf("acme", "one"), `"timestampMs":1795348800000`, `"timestampMs":1795348800000000`, 1)
	code, got := publishLines(t, atOnce, wrong+"\n"+lineOf("acme", "two"))
	if diff := cmp.Diff([]string{"1 c-one refused bad_time timestampMs 17953488", "2 c-two published"}, got); code != 200 || diff != "" {
		t.Errorf("%d (-want +got):\n%s", code, diff)
	}
	m := <-messages
	m.Ack()
	if !strings.Contains(string(m.Payload), `"two"`) {
		t.Errorf("published: %s", m.Payload)
	}
}

// lineOf is an envelope of a ScheduleTimer.
func lineOf(tenant timer.TenantID, call timer.ServiceCallID) string {
	return string(envelope.Schedule(timer.ScheduleTimer{
		Key: timer.Key{TenantID: tenant, ServiceCallID: call}, Version: timer.Version{TimestampMS: 1795348800000, CommandID: "c-" + string(call)}, DueAt: fired,
	}))
}

// publishLines posts lines and returns the status and what became of each.
func publishLines(t *testing.T, s *admin.Server, body string, header ...string) (int, []string) {
	t.Helper()
	w := request(s, "POST", "/v1/commands", body, append(header, "Content-Type", "application/jsonl")...)
	if w.Code != 200 {
		return w.Code, []string{w.Body.String()}
	}
	if kind := w.Header().Get("Content-Type"); kind != "application/jsonl" {
		t.Errorf("the answer is %s", kind)
	}
	var got []string
	for text := range strings.Lines(w.Body.String()) {
		var r admin.LineResult
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(text, err)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%d %s %s %s %.20s", r.Line, r.ID, r.Result, r.Reason, r.Detail)))
	}
	return w.Code, got
}

func TestManyCommandsArePublishedAtOnce(t *testing.T) {
	t.Parallel()
	b := channel(t)
	s := admin.New(quiet, admin.Options{Token: "full", Monitor: watched(t), Timers: seeded(t), Broker: b})
	useTokens(t, s, tenantTokens)
	messages, err := b.Tail().Subscribe(t.Context(), b.Routing().CommandsOf("acme"))
	must(t, err)
	other := strings.Replace(lineOf("globex", "order-2"), `"tenantId":"globex"`, `"tenantId":"acme"`, 1) // of another tenant within
	body := strings.Join([]string{
		lineOf("acme", "order-1"), "", lineOf("globex", "order-2"), "{", `{"id":"x","type":"OrderPlaced","tenantId":"acme","timestampMs":1795348800000,"payload":{}}`, other, lineOf("acme", "order-1"), "",
	}, "\r\n")
	for _, test := range []struct {
		token string
		want  []string
	}{
		{"full", []string{
			"1 c-order-1 published", "3 c-order-2 published", "4  refused not_json", "5 x refused unknown_type \"OrderPlaced\" is not", "6  refused tenant_mismatch", "7 c-order-1 published",
		}},
		{"acme", []string{
			"1 c-order-1 published", "3 c-order-2 refused  there is nothing of", "4  refused not_json", "5 x refused unknown_type \"OrderPlaced\" is not", "6  refused tenant_mismatch", "7 c-order-1 published",
		}},
	} {
		code, got := publishLines(t, s, body, with(test.token)...)
		for i := range got {
			if i < len(test.want) && (strings.HasSuffix(test.want[i], "not_json") || strings.HasSuffix(test.want[i], "mismatch")) && strings.HasPrefix(got[i], test.want[i]) {
				got[i] = test.want[i] // the text is that of the decoder
			}
		}
		if diff := cmp.Diff(test.want, got); code != 200 || diff != "" {
			t.Errorf("%s: %d (-want +got):\n%s", test.token, code, diff)
		}
	}
	seen := make(map[string]bool)
	for range 5 { // of two requests
		m := <-messages
		m.Ack()
		if seen[m.UUID] || m.Metadata.Get(envelope.HeaderType) != envelope.TypeScheduleTimer || !strings.HasPrefix(m.Metadata.Get(envelope.HeaderMessageID), "c-order-") {
			t.Errorf("message %s has the headers %v", m.UUID, m.Metadata)
		}
		seen[m.UUID] = true
	}
}

// Requests with an effect are bounded, and one that may not publish does not.
func TestManyCommandsThatAreRefused(t *testing.T) {
	t.Parallel()
	line := lineOf("acme", "order-1") + "\n"
	limited := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: channel(t)})
	for name, test := range map[string]struct {
		s    *admin.Server
		body string
		code int
		says string
	}{
		"as many as there may be": {limited, strings.Repeat(line, admin.MaxCommands), 200, "1 c-order-1 published"},
		"one more":                {limited, strings.Repeat(line, admin.MaxCommands+1), 422, "more than 1000 lines"},
		"one more, at its end":    {limited, strings.Repeat(line, admin.MaxCommands) + lineOf("acme", "order-1"), 422, "more than 1000 lines"},
		"one more, separated":     {limited, strings.Repeat(admin.RecordSeparator+line, admin.MaxCommands+1), 422, "more than 1000 lines"},
		"as large as it may be":   {limited, strings.Repeat(" ", admin.MaxCommandsBytes-len(line)) + line, 200, "1 c-order-1 published"},
		"a byte more":             {limited, strings.Repeat(" ", admin.MaxCommandsBytes-len(line)+1) + line, 413, "too large"},
		"read only":               {admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: channel(t), ReadOnly: true}), line, 403, "reads only"},
		"no broker":               {admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t)}), line, 503, "needs a broker"},
		"a broker that is away": {
			admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: gochannel.New(gochannel.Options{}, quiet)}),
			line, 200, "1 c-order-1 failed  the broker did not a",
		},
	} {
		if code, got := publishLines(t, test.s, test.body); code != test.code || !strings.Contains(got[0], test.says) {
			t.Errorf("%s: %d %.300q, want %d %q", name, code, got, test.code, test.says)
		}
	}
	if code, got := publishLines(t, limited, "\n\n"); code != 200 || got != nil {
		t.Errorf("nothing: %d %v", code, got)
	}
}
