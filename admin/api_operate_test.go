package admin_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// storeService is a service that does on its store what an app does.
type storeService struct{ *sqlite.Store }

func (s storeService) Pause(ctx context.Context, p timer.Pause) error {
	p.Since = fired
	return s.Decide(ctx, timer.Decision{TenantID: p.TenantID, Kind: timer.DecidedFiring, Pause: p, At: fired})
}

func (s storeService) Resume(ctx context.Context, tenant timer.TenantID) error {
	return s.Decide(ctx, timer.Decision{TenantID: tenant, Kind: timer.DecidedFiring, At: fired})
}

func (s storeService) Retry(ctx context.Context, seqs ...int64) (int, error) {
	return s.RetryParked(ctx, fired, seqs...)
}

func (s storeService) Forget(ctx context.Context, tenant timer.TenantID) (timer.Counts, error) {
	if tenant == "slow" {
		return timer.Counts{Scheduled: 7}, context.DeadlineExceeded
	}
	if tenant == "broken" {
		return timer.Counts{Scheduled: 7}, errors.New("disk full")
	}
	return s.Store.Forget(ctx, tenant, time.Time{}, 10_000)
}

func (s storeService) Refire(ctx context.Context, which timer.Refire) (timer.Refired, error) {
	which, err := which.Validate(fired.Add(time.Hour))
	if which.TenantID == "slow" {
		return timer.Refired{Events: 2, Next: "more", Until: which.Until}, context.DeadlineExceeded
	}
	e, _ := s.Get(ctx, timer.Key{TenantID: "acme", ServiceCallID: "order-1"})
	return timer.Refired{Events: 1, First: []timer.Entry{e}, Until: which.Until, CompleteFrom: fired.Add(-time.Hour)}, err
}

func (storeService) Validate(*message.Message) error { return nil }

// operated returns a server that changes a store, with the token "full", and "acme" for
// the tenant acme. The event of acme.order-1 is parked, and that of globex.gone too.
func operated(t testing.TB, change func(*admin.Options)) (*admin.Server, *sqlite.Store) {
	t.Helper()
	store, ctx := seeded(t), t.Context()
	err := store.Update(ctx, func(tx timer.Tx) error {
		return tx.Emit(ctx, timer.DueTimeReached{Key: timer.Key{TenantID: "globex", ServiceCallID: "gone"}, CommandID: "c", DueAt: fired, ReachedAt: fired})
	})
	must(t, err)
	park(t, store, "too large")
	opt := admin.Options{
		Token: "full", Monitor: admin.NewMonitor(nil, quiet), Timers: store, Broker: channel(t), Operator: store, Service: storeService{store},
	}
	if change != nil {
		change(&opt)
	}
	s := admin.New(quiet, opt)
	useTokens(t, s, tenantTokens)
	return s, store
}

// park parks all events in the outbox of a store.
func park(t testing.TB, store *sqlite.Store, reason string) {
	t.Helper()
	table := store.Outbox().Table
	rows, err := table.Head(t.Context(), 0, 10)
	if err != nil || len(rows) == 0 {
		t.Fatal(rows, err)
	}
	for _, r := range rows {
		must(t, table.Park(t.Context(), fired.Add(time.Minute), r.Place, reason))
	}
}

// tenantTokens are those of two tenants.
var tenantTokens = map[timer.TenantID][]string{"acme": {"acme"}, "globex": {"globex"}}

// with is the header with a token.
func with(token string) []string { return []string{"Authorization", "Bearer " + token} }

func TestParkedEventsAreListedRetriedAndDiscarded(t *testing.T) {
	t.Parallel()
	s, store := operated(t, nil)
	list := func(token, query string) string {
		code, got, _ := send(t, s, "GET", "/v1/parked"+query, "", with(token)...)
		events, _ := got["parked"].([]any)
		text := fmt.Sprint(code)
		for _, e := range events {
			e := e.(map[string]any)
			text += fmt.Sprintf(" %v.%v", e["tenantId"], e["serviceCallId"])
			if e["reason"] != "too large" || e["parkedAt"] != "2026-01-01T00:01:00.000Z" || e["body"] != nil {
				t.Errorf("%v", e)
			}
		}
		if next, ok := got["next"].(string); ok {
			text += " " + next
		}
		return text
	}
	all, err := store.Parked(t.Context(), "", 0, 10)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	first, second := fmt.Sprint(all[1].Seq), fmt.Sprint(all[0].Seq)
	for _, test := range []struct{ token, query, want string }{
		{"full", "", "200 globex.gone acme.order-1"},
		{"full", "?limit=1", "200 globex.gone " + second},
		{"full", "?limit=1&after=" + second, "200 acme.order-1 " + first},
		{"full", "?after=" + first, "200"},
		{"full", "?tenant=globex", "200 globex.gone"},
		{"full", "?tenant=none", "200"},
		{"full", "?reason=TOO+large", "200 globex.gone acme.order-1"},
		{"full", "?reason=timeout", "200"},
		{"full", "?correlationId=req-7", "200 acme.order-1"},
		{"full", "?since=2026-01-01T00:01:00Z", "200 globex.gone acme.order-1"},
		{"full", "?since=2026-01-01T00:01:01Z", "200"},
		{"full", "?since=yesterday", "422"},
		{"acme", "?reason=too+large", "200 acme.order-1"},
		{"acme", "", "200 acme.order-1"},
		{"acme", "?tenant=acme", "200 acme.order-1"},
		{"acme", "?tenant=globex", "404"},
	} {
		if got := list(test.token, test.query); got != test.want {
			t.Errorf("%s as %s: %s, want %s", test.query, test.token, got, test.want)
		}
	}
	if _, text := do(s, "GET", "/v1/parked?body=true&seq="+first, with("full")...); !strings.Contains(text, `\"type\":\"DueTimeReached\"`) {
		t.Errorf("one: %s", text)
	}
	for _, test := range []struct {
		token, method, target string
		code                  int
	}{
		{"acme", "GET", "/v1/parked?seq=" + second, 404},
		{"acme", "POST", "/v1/parked:retry?seq=" + second, 404},
		{"acme", "POST", "/v1/parked:discard?seq=" + second, 404},
		{"full", "GET", "/v1/parked?seq=9999", 404},
		{"full", "POST", "/v1/parked:retry?seq=9999", 404},
		{"full", "POST", "/v1/parked:discard?seq=9999", 404},
		{"full", "GET", "/v1/parked?seq=0", 422},
		{"full", "POST", "/v1/parked:retry?seq=x", 422},
		{"full", "POST", "/v1/parked:retry", 422},
		{"full", "POST", "/v1/parked:discard?limit=1", 422},
		{"full", "POST", "/v1/parked:discard?all=true&seq=" + first, 422},
		{"acme", "POST", "/v1/parked:retry?seq=" + first, 200},
		{"full", "POST", "/v1/parked:retry?seq=" + first, 404},
		{"full", "POST", "/v1/parked:discard?all=true", 200},
	} {
		if code, text := do(s, test.method, test.target, with(test.token)...); code != test.code {
			t.Errorf("%s %s as %s: %d %s, want %d", test.method, test.target, test.token, code, text, test.code)
		}
	}
	if got := list("full", ""); got != "200" {
		t.Errorf("left: %s", got)
	}
	if rows, err := store.Outbox().Table.Head(t.Context(), 0, 10); err != nil || len(rows) != 1 {
		t.Errorf("in the outbox: %v %v", rows, err)
	}
}

func TestFiringIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	for i, test := range []struct {
		method, target string
		want           map[string]any
	}{
		{"GET", "/v1/audit", map[string]any{"actions": []any{}}},
		{"GET", "/v1/firing", map[string]any{"paused": false}},
		{"POST", "/v1/firing:pause", map[string]any{"paused": true, "since": "2026-01-01T00:00:00.000Z", "by": "192.0.2.1"}},
		{"GET", "/v1/firing", map[string]any{"paused": true, "since": "2026-01-01T00:00:00.000Z", "by": "192.0.2.1"}},
		{"POST", "/v1/firing:resume", map[string]any{"paused": false}},
		{"POST", "/v1/firing:pause?tenant=acme&until=2099-01-01T00:00:00Z", map[string]any{"paused": false, "tenants": []any{
			map[string]any{"tenantId": "acme", "since": "2026-01-01T00:00:00.000Z", "until": "2099-01-01T00:00:00.000Z", "by": "192.0.2.1"},
		}}},
		{"POST", "/v1/firing:resume?tenant=acme", map[string]any{"paused": false}},
	} {
		code, got, _ := send(t, s, test.method, test.target, "", with("full")...)
		if diff := cmp.Diff(test.want, got); code != 200 || diff != "" {
			t.Errorf("%d: %s: %d (-want +got):\n%s", i, test.target, code, diff)
		}
	}
	_, got, _ := send(t, s, "GET", "/v1/audit", "", with("full")...)
	actions, _ := got["actions"].([]any)
	if len(actions) != 4 || actions[0].(map[string]any)["what"] != "resume firing" || actions[1].(map[string]any)["target"] != "acme" || actions[3].(map[string]any)["who"] != "192.0.2.1" {
		t.Errorf("%v", got)
	}
	_, got, _ = send(t, s, "GET", "/v1/nodes", "", with("full")...)
	if nodes := got["nodes"].([]any); len(nodes) != 1 || !cmp.Equal(slices.Sorted(maps.Keys(nodes[0].(map[string]any))), []string{"host", "id", "pid", "seen", "self", "started"}) {
		t.Errorf("nodes: %v", got)
	}
}

// TestWhatIsPausedIsShown to the tenant and to people who see all tenants. Only the latter pause it.
func TestWhatIsPausedIsShown(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	for target, want := range map[string]int{
		"/v1/firing:pause?tenant=acme&until=2001-01-01T00:00:00Z": 422, "/v1/firing:pause?until=tomorrow": 422, "/v1/firing:pause?tenant=a.b": 422, "/v1/firing:resume?tenant=_": 422,
	} {
		if code, text := do(s, "POST", target, with("full")...); code != want {
			t.Errorf("%s: %d %s, want %d", target, code, text, want)
		}
	}
	for _, verb := range []string{"pause", "resume"} {
		if code, text := do(s, "POST", "/v1/firing:"+verb+"?tenant=acme", with("acme")...); code != 403 {
			t.Errorf("%s by the tenant: %d %s", verb, code, text)
		}
	}
	if code, text := do(s, "POST", "/v1/firing:pause?tenant=acme", with("full")...); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	pause := map[string]any{"since": "2026-01-01T00:00:00.000Z", "by": "192.0.2.1"}
	for tenant, want := range map[string]any{"acme": pause, "globex": nil} {
		_, got, _ := send(t, s, "GET", "/v1/tenants/"+tenant, "", with(tenant)...)
		if diff := cmp.Diff(want, got["pause"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tenant, diff)
		}
		_, text := do(s, "GET", "/parked", with(tenant)...)
		if shown := strings.Contains(text, "<b>Firing of acme is paused</b>"); shown != (tenant == "acme") || strings.Contains(text, "resume") && strings.Contains(text, "/do/resume") {
			t.Errorf("the page of %s says %t that it is paused:\n%s", tenant, shown, text)
		}
	}
	if _, text := get(s, "/audit", with("full")...); !strings.Contains(text, "<b>Firing of acme is paused</b>") || !strings.Contains(text, "/do/resume?tenant=acme") {
		t.Errorf("a page does not say that it is paused:\n%s", text)
	}
	_, got, _ := send(t, s, "GET", "/v1/stats", "", with("full")...)
	if firing, _ := got["firing"].(map[string]any); firing == nil || firing["paused"] != false || len(firing["tenants"].([]any)) != 1 {
		t.Errorf("stats: %v", got)
	}
	_, got, _ = send(t, s, "GET", "/v1/tenants", "", with("full")...)
	for _, listed := range got["tenants"].([]any) {
		if is := listed.(map[string]any); (is["tenantId"] == "acme") != (is["pause"] != nil) {
			t.Errorf("tenants: %v", is)
		}
	}
}

// TestRefireIsForThoseWhoSeeAll, and reports the events that it published, also after an error. A dry run changes
// nothing, so that nothing of it is in the audit log.
func TestRefireIsForThoseWhoSeeAll(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	for _, test := range []struct {
		token, query string
		code         int
		want         string
	}{
		{"full", "", 422, "since"},
		{"full", "?since=2099-01-01T00:00:00Z", 422, "since is not before"},
		{"full", "?since=2026-01-01T00:00:00Z&tenant=a.b", 422, "tenant"},
		{"acme", "?since=2026-01-01T00:00:00Z&tenant=acme", 403, ""},
		{"full", "?since=2026-01-01T00:00:00Z&dryRun=true", 200, `"events":1`},
		{"full", "?since=2026-01-01T00:00:00Z", 200, `"completeFrom":"2025-12-31T23:00:00.000Z"`},
		{"full", "?since=2026-01-01T00:00:00Z&tenant=slow", 200, `"next":"more"`},
	} {
		if code, text := do(s, "POST", "/v1/timers:refire"+test.query, with(test.token)...); code != test.code || !strings.Contains(text, test.want) {
			t.Errorf("%s as %s: %d %s, want %d and %s", test.query, test.token, code, text, test.code, test.want)
		}
	}
	var log []string
	_, got, _ := send(t, s, "GET", "/v1/audit", "", with("full")...)
	for _, a := range got["actions"].([]any) {
		if a := a.(map[string]any); strings.HasSuffix(fmt.Sprint(a["result"]), "event") || strings.HasSuffix(fmt.Sprint(a["result"]), "events") {
			log = append(log, fmt.Sprintf("%v: %v", a["target"], a["result"]))
		}
	}
	if want := []string{"slow since 2026-01-01T00:00:00.000Z: failed: not all: ask again; 2 events", "all tenants since 2026-01-01T00:00:00.000Z: 1 event"}; !slices.Equal(log, want) {
		t.Errorf("the audit log has %q, want %q", log, want)
	}
	for _, test := range [][3]string{
		{"refire", "since=10m", "since is not before"}, // by the clock of this test
		{"refire", "since=", "choose how far back"},
		{"refire", "since=1000000h", "1 event published again. Timers that fired or expired before 2025-12-31T23:00:00.000Z may be deleted."},
		{"refire", "since=1000000h&tenant=slow", "2 events published again, not all"},
	} {
		if _, text := submit(s, "/do/"+test[0], parsed(t, test[1]), with("full")...); !strings.Contains(text, test[2]) {
			t.Errorf("%s with %s shows\n%s\nwant %q", test[0], test[1], text, test[2])
		}
	}
}

// TestForgetNeedsTheNameAgain: then all timers of the tenant are deleted, and no other.
func TestForgetNeedsTheNameAgain(t *testing.T) {
	t.Parallel()
	s, store := operated(t, nil)
	for target, want := range map[string]int{
		"/v1/tenants/acme": 422, "/v1/tenants/acme?confirm=": 422, "/v1/tenants/acme?confirm=globex": 422, "/v1/tenants/acme?confirm=Acme": 422, "/v1/tenants/a%2Fb?confirm=a%2Fb": 422,
	} {
		if code, text := do(s, "DELETE", target, with("full")...); code != want {
			t.Errorf("%s: %d %s", target, code, text)
		}
	}
	for _, tenant := range []string{"globex", "acme"} { // not even its own
		if code, _ := do(s, "DELETE", "/v1/tenants/acme?confirm=acme", with(tenant)...); code != 403 {
			t.Errorf("the token of %s: %d", tenant, code)
		}
	}
	more := make([]timer.ScheduleTimer, 2500)
	for i := range more {
		more[i] = command("acme", fmt.Sprintf("more-%d", i), fired.Add(time.Hour), 1)
	}
	if _, err := store.Schedule(t.Context(), fired, more...); err != nil {
		t.Fatal(err)
	}
	code, got, _ := send(t, s, "DELETE", "/v1/tenants/acme?confirm=acme", "", with("full")...)
	want := map[string]any{"deleted": map[string]any{"scheduled": 2502.0, "reached": 1.0, "expired": 0.0, "canceled": 1.0}, "complete": true}
	if diff := cmp.Diff(want, got); code != 200 || diff != "" {
		t.Errorf("%d (-want +got):\n%s", code, diff)
	}
	for _, tenant := range []string{"slow", "broken"} { // timers that were deleted before the error are counted
		code, got, _ = send(t, s, "DELETE", "/v1/tenants/"+tenant+"?confirm="+tenant, "", with("full")...)
		if code != 200 || got["complete"] != false || got["deleted"].(map[string]any)["scheduled"] != 7.0 {
			t.Errorf("%s: %d %v", tenant, code, got)
		}
	}
	stats, err := store.Stats(t.Context(), "")
	if err != nil || stats.Scheduled != 1 || stats.Parked != 1 {
		t.Errorf("left: %+v %v", stats, err)
	}
}

func TestUpcomingSaysWhatIsDueAndOfWhom(t *testing.T) {
	t.Parallel()
	s, store := operated(t, nil)
	now := time.Now()
	var commands []timer.ScheduleTimer
	for i, n := range []int{1, 3, 2, 1500, 1, 1} { // of tenant-0 and so on
		for j := range n {
			commands = append(commands, command(fmt.Sprintf("tenant-%d", i), fmt.Sprintf("order-%d", j), now.Add(time.Duration(i)*time.Minute+30*time.Second), 1))
		}
	}
	if _, err := store.Schedule(t.Context(), now, commands...); err != nil {
		t.Fatal(err)
	}
	_, got, _ := send(t, s, "GET", "/v1/upcoming?intervals=5&width=1m", "", with("full")...)
	if want := []any{1.0, 3.0, 2.0, float64(timer.MaxUpcoming), 1.0}; !slices.Equal(got["intervals"].([]any), want) || got["cap"] != float64(timer.MaxUpcoming) || got["widthMs"] != 60000.0 || got["sampled"] != 1000.0 {
		t.Errorf("%v", got)
	}
	var causes []string
	for _, cause := range got["tenants"].([]any) {
		c := cause.(map[string]any)
		causes = append(causes, fmt.Sprint(c["tenantId"], " ", c["sampled"], " ", c["intervals"]))
	}
	want := []string{fmt.Sprintf("tenant-3 993 [0 0 0 %d 0]", timer.MaxUpcoming), "tenant-1 3 [0 3 0 0 0]", "tenant-2 2 [0 0 2 0 0]", "acme 1 [0 0 0 0 0]", "tenant-0 1 [1 0 0 0 0]"}
	if diff := cmp.Diff(want, causes); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
	for token, target := range map[string]string{"full": "?tenant=acme", "acme": ""} {
		if _, got, _ := send(t, s, "GET", "/v1/upcoming"+target, "", with(token)...); len(got["intervals"].([]any)) != 60 || len(got["tenants"].([]any)) != 0 {
			t.Errorf("%s: %v", token, got)
		}
	}
	for _, query := range []string{"?width=0", "?width=-1m", "?width=367d", "?width=x", "?intervals=0", "?intervals=241", "?tenant=a/b"} {
		if code, text := do(s, "GET", "/v1/upcoming"+query, with("full")...); code != 422 {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}
}

func TestQuotasSayWhatIsUsed(t *testing.T) {
	t.Parallel()
	none, _ := operated(t, nil)
	if _, got, _ := send(t, none, "GET", "/v1/quotas", "", with("full")...); got["limited"] != false || len(got["tenants"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
	limits, err := quota.New(quota.Config{
		Default: quota.Limits{Live: 10}, Tenants: map[timer.TenantID]quota.Limits{"globex": {Accept: quota.Rate{PerSecond: 5}, Horizon: time.Hour, Policy: quota.DeadLetter, ExpireAfter: time.Minute}, "zeta": {}},
	}, timer.ClockFunc(time.Now), quota.Options{})
	must(t, err)
	s, _ := operated(t, func(opt *admin.Options) { opt.Quotas = limits })
	ask := func(token, query string) map[string]any {
		t.Helper()
		code, got, _ := send(t, s, "GET", "/v1/quotas"+query, "", with(token)...)
		if code != 200 {
			t.Errorf("%s: %d %v", query, code, got)
		}
		return got
	}
	want := map[string]any{
		"limited": true, "next": "globex", "default": map[string]any{"liveTimers": 10.0, "latenessObjectiveMs": 1000.0, "overQuota": "delay"},
		"tenants": []any{map[string]any{
			"tenantId": "globex", "own": true, "liveTimers": 1.0,
			"limits": map[string]any{"acceptRate": 5.0, "horizonMs": 3600000.0, "expireAfterMs": 60000.0, "latenessObjectiveMs": 1000.0, "overQuota": "dead_letter"},
		}},
	}
	if diff := cmp.Diff(want, ask("full", "?limit=1")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if next := ask("full", "?after=globex"); next["next"] != nil || next["tenants"].([]any)[0].(map[string]any)["tenantId"] != "zeta" {
		t.Errorf("%v", next)
	}
	if own := ask("acme", "")["tenants"].([]any); len(own) != 1 || own[0].(map[string]any)["liveTimers"] != 2.0 {
		t.Errorf("%v", own)
	}
}

// TestServerWithoutAServiceOnlyReads, and one that is read only changes nothing either.
func TestServerWithoutAServiceOnlyReads(t *testing.T) {
	t.Parallel()
	without, _ := operated(t, func(opt *admin.Options) { opt.Service, opt.Operator, opt.Broker = nil, nil, nil })
	readOnly, _ := operated(t, func(opt *admin.Options) { opt.ReadOnly = true })
	for target, method := range map[string]string{
		"/v1/firing:pause": "POST", "/v1/firing:resume": "POST", "/v1/parked:retry?seq=1": "POST", "/v1/parked:discard?seq=1": "POST", "/v1/tenants/acme?confirm=acme": "DELETE",
		"/v1/tenants/acme/timers/order-4": "DELETE", "/v1/dead-letters:discard?id=a": "POST", "/v1/dead-letters:replay?id=a": "POST",
	} {
		if code, text := do(without, method, target, with("full")...); code != 503 {
			t.Errorf("%s: %d %s", target, code, text)
		}
		if code, text := do(readOnly, method, target, with("full")...); code != 403 || !strings.Contains(text, "http_read_only") {
			t.Errorf("read only: %s: %d %s", target, code, text)
		}
	}
}

// slowCounts is a database that takes its time for the counts of a tenant.
type slowCounts struct{ timer.Reader }

func (slowCounts) Stats(ctx context.Context, _ timer.TenantID) (timer.Stats, error) {
	select {
	case <-time.After(10 * time.Millisecond):
		return timer.Stats{}, nil
	case <-ctx.Done():
		return timer.Stats{}, ctx.Err()
	}
}

// TestQuotasOfManyTenantsComeInPages that end when there is no time for more.
func TestQuotasOfManyTenantsComeInPages(t *testing.T) {
	t.Parallel()
	tenants := make(map[timer.TenantID]quota.Limits)
	for i := range 500 {
		tenants[timer.TenantID("t-"+string(rune('a'+i/26))+string(rune('a'+i%26)))] = quota.Limits{Live: 1}
	}
	limits, err := quota.New(quota.Config{Tenants: tenants}, timer.ClockFunc(time.Now), quota.Options{})
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: slowCounts{}, Quotas: limits})
		seen := 0
		for after, pages := "", 0; pages < 10; pages++ {
			code, got, _ := ask(t, s, "GET", "/v1/quotas?limit=1000&after="+after)
			if code != 200 {
				t.Fatal(code, got)
			}
			seen += len(got["tenants"].([]any))
			if after, _ = got["next"].(string); after == "" {
				break
			}
		}
		if seen != len(tenants) {
			t.Errorf("%d of %d tenants", seen, len(tenants))
		}
	})
}
