package admin_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestPagesDoWhatTheyOffer: each deed that is not about many, by its form.
func TestPagesDoWhatTheyOffer(t *testing.T) {
	t.Parallel()
	b := channel(t)
	s, store := operated(t, func(opt *admin.Options) { opt.Broker = b })
	refuse(t, b, "acme", "letter-1", "bad_field", "{}", 0)
	refuse(t, b, "acme", "letter-2", "bad_field", "{}", 0)
	parked, err := store.Parked(t.Context(), "", 0, 10)
	if err != nil || len(parked) != 2 {
		t.Fatal(parked, err)
	}
	for _, test := range []struct{ deed, form, says string }{
		{"pause", "", "Done.</b> No timer of all tenants fires until firing is resumed."},
		{"resume", "", "Done.</b> Firing is resumed."},
		{"pause", "tenant=acme&for=1h", "Done.</b> No timer of acme fires until 20"},
		{"resume", "tenant=acme", "Done.</b> Firing is resumed."},
		{"pause", "for=long", "Not done:</b> for must be a duration"},
		{"replay", "filter=tenant%3Dacme%26id%3Dletter-1", "Done.</b> 1 dead letter replayed, 0 refused."},
		{"discard", "filter=tenant%3Dacme%26id%3Dletter-2", "Done.</b> 1 dead letter discarded, 0 refused."},
		{"discard", "filter=tenant%3Dacme%26id%3Dletter-2", "Not done:</b> there is no such dead letter"},
		{"fire", "tenant=acme&call=order-3", "to fire now 1 timer was sent"},
		{"fire", "tenant=acme&call=order-1", "Not done:</b> no such timer waits"},
		{"fire", "tenant=acme&call=a+b", "Not done:</b> "},
		{"postpone", "tenant=acme&call=order-3&by=1h", "Commands to postpone 1 timer were sent"},
		{"postpone", "tenant=acme&call=order-3&by=long", "Not done:</b> by must be a duration"},
		{"postpone", "tenant=acme&call=order-3", "Not done:</b> by must be a duration"},
		{"postpone-prefix", "tenant=acme&prefix=order-&by=7d", "Commands to postpone 2 timers were sent"},
		{"fire-correlated", "tenant=acme&correlation=req-9", "to fire now 0 timers was sent"},
		{"cancel", "tenant=acme&call=order-3", "to cancel 1 timer was sent"},
		{"cancel", "tenant=acme&call=order-1", "Not done:</b> no such timer waits"},
		{"cancel", "tenant=acme&call=never", "Not done:</b> no such timer waits"},
		{"cancel", "tenant=acme&call=a+b", "Not done:</b> "},
		{"cancel-prefix", "tenant=acme&prefix=order-", "to cancel 2 timers was sent"},
		{"cancel-correlated", "tenant=acme&correlation=req-9", "to cancel 0 timers was sent"},
		{"retry-parked", fmt.Sprint("filter=id%3D", parked[0].Seq), "Done.</b> 1 of 1 events in the outbox again."},
		{"discard-parked", fmt.Sprint("filter=id%3D", parked[1].Seq), "Done.</b> 1 of 1 events deleted for good."},
		{"discard-parked", fmt.Sprint("filter=id%3D", parked[1].Seq), "Not done:</b> there is no such parked event"},
		{"discard-parked", "filter=id%3Dnone", "Not done:</b> there is no such parked event"},
	} {
		if _, body := submit(s, "/do/"+test.deed, parsed(t, test.form), with("full")...); !strings.Contains(body, test.says) {
			t.Errorf("%s with %q: no %q in\n%s", test.deed, test.form, test.says, body)
		}
	}
	if stats, err := store.Stats(t.Context(), ""); err != nil || stats.Parked != 0 || stats.Outbox != 1 {
		t.Errorf("%d parked, %d in the outbox (%v)", stats.Parked, stats.Outbox, err)
	}
}

// TestPagesChangeOneTenantWithItsToken, and no other.
func TestPagesChangeOneTenantWithItsToken(t *testing.T) {
	t.Parallel()
	s, store := operated(t, nil)
	for _, test := range []struct {
		path, form string
		code       int
	}{
		{"/do/cancel", "tenant=globex&call=order-1", 404},
		{"/do/discard", "filter=tenant%3Dglobex%26id%3Dany", 404},
		{"/do/forget", "tenant=acme&confirm=acme", 403},
		{"/do/pause", "", 403},
		{"/do/cancel", "tenant=acme&call=order-3", 200},
	} {
		if code, body := submit(s, test.path, parsed(t, test.form), with("acme")...); code != test.code {
			t.Errorf("%s with %s: %d %s", test.path, test.form, code, body)
		}
	}
	if code, body := get(s, "/search?q=req-7", with("acme")...); code != 200 || !strings.Contains(body, "call=order-1") || strings.Contains(body, "globex") {
		t.Errorf("search by a correlation id that two tenants use: %d %s", code, body)
	}
	if c, err := store.Stats(t.Context(), "acme"); err != nil || c.Total() != 4 {
		t.Errorf("the tenant has %+v (%v)", c.Counts, err)
	}
}

// TestSearchFindsWhatManyOfOthersShare: a correlation id of a timer of a tenant, which
// more timers of another tenant have than one answer of the database.
func TestSearchFindsWhatManyOfOthersShare(t *testing.T) {
	t.Parallel()
	store := database(t)
	all := make([]timer.ScheduleTimer, timer.MaxPage+1)
	for i := range all {
		all[i] = command("aa-other", fmt.Sprint("order-", i), fired, int64(i+1))
		all[i].CorrelationID = "req-7"
	}
	all[timer.MaxPage].TenantID = "acme"
	if _, err := store.Schedule(t.Context(), fired, all...); err != nil {
		t.Fatal(err)
	}
	s := admin.New(quiet, admin.Options{Token: "full", Monitor: watched(t), Timers: store, Broker: channel(t)})
	useTokens(t, s, tenantTokens)
	for token, has := range map[string]string{"acme": "tenant=acme&amp;call=order-1000", "globex": "No timer carries", "full": "tenant=aa-other&amp;call=order-0"} {
		if code, body := get(s, "/search?q=req-7", with(token)...); code != 200 || !strings.Contains(body, has) || strings.Contains(body, "aa-other") != (token == "full") {
			t.Errorf("%s: %d %s", token, code, body)
		}
	}
}

// TestPagesRefuseWhatIsNoForm, no tenant, or no page.
func TestPagesRefuseWhatIsNoForm(t *testing.T) {
	t.Parallel()
	store := seeded(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: store, Operator: store, Service: storeService{store}, Broker: channel(t)})
	for _, test := range []struct {
		path, body string
		code       int
	}{
		{"/do/pause", "a=%zz", 400},
		{"/do/pause", "a=" + strings.Repeat("x", 80_000), 413},
		{"/do/forget", "", 400},
		{"/do/cancel", "call=order-1", 400},
		{"/do/discard", "filter=tenant%3Dacme%26id%3Dnothing", 404},
	} {
		w := request(s, "POST", test.path, test.body, "Content-Type", "application/x-www-form-urlencoded")
		if w.Code != test.code || strings.Contains(w.Body.String(), "Done.") {
			t.Errorf("POST %s %.20s: %d, want %d: %s", test.path, test.body, w.Code, test.code, w.Body)
		}
	}
	for _, path := range []string{"/timers?after=", "/timers?tenant=acme&after=", "/tenants?after=", "/timers?tenant=acme&from="} {
		if code, body := get(s, path+"%00"); code != 422 {
			t.Errorf("%s: %d, want 422: %s", path, code, body)
		}
	}
}

// TestOverviewSaysOfWhatItNamesTheWorst tenants, if that is not of all.
func TestOverviewSaysOfWhatItNamesTheWorst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tenants, timers int
		due             time.Time
		says, doesNot   string
	}{
		"overdue":      {1, timer.MaxPage + 1, fired, "among the 1,000 oldest of them", "No tenant"},
		"all overdue":  {1, timer.MaxPage, fired, "most overdue timers</h2>", "among"},
		"none overdue": {3, 1, fired.AddDate(100, 0, 0), "No tenant has an overdue timer", "among"},
	} {
		store := database(t)
		var all []timer.ScheduleTimer
		for i := range test.tenants {
			for j := range test.timers {
				all = append(all, command(fmt.Sprint("tenant-", i), fmt.Sprint("order-", j), test.due, 1))
			}
		}
		if _, err := store.Schedule(t.Context(), fired, all...); err != nil {
			t.Fatal(err)
		}
		_, body := get(admin.New(quiet, admin.Options{Monitor: watched(t), Timers: store}), "/")
		if !strings.Contains(body, test.says) || strings.Contains(body, test.doesNot) {
			t.Errorf("%s: no %q, or %q in\n%s", name, test.says, test.doesNot, body)
		}
	}
}

// TestPageOfAForget needs the name of the tenant, and says how much was deleted, and to ask again
// if that is not all.
func TestPageOfAForget(t *testing.T) {
	t.Parallel()
	store := seeded(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: store, Operator: store, Service: storeService{store}, Broker: channel(t)})
	for _, typed := range []string{"", "Globex", "acme"} {
		if code, body := submit(s, "/do/forget", url.Values{"tenant": {"globex"}, "confirm": {typed}}); code != 422 || !strings.Contains(body, "nothing was deleted") {
			t.Errorf("the name %q: %d %s", typed, code, body)
		}
	}
	for tenant, want := range map[string]struct {
		code int
		says string
	}{
		"slow":   {200, "Done in part.</b> 7 timers deleted so far, not all: ask again."},
		"broken": {503, "Failed:</b> 7 timers deleted so far, then the database did not answer"},
		"globex": {200, "Done.</b> 1 timer deleted: 1 waiting"},
	} {
		if code, body := submit(s, "/do/forget", url.Values{"tenant": {tenant}, "confirm": {tenant}}); code != want.code || !strings.Contains(body, want.says) {
			t.Errorf("%s: %d, no %q in\n%s", tenant, code, want.says, body)
		}
	}
	_, body := get(s, "/audit")
	for _, text := range []string{"not all: ask again; 7 timers deleted", "failed: disk full; 7 timers deleted", "1 timer deleted"} {
		if !strings.Contains(body, text) {
			t.Errorf("no %q in the audit log", text)
		}
	}
}

// TestOverviewWorksWithoutTheDatabase and says so.
func TestOverviewWorksWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	store := database(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t, broken), Timers: store})
	must(t, store.Close())
	code, body := get(s, "/")
	for _, text := range []string{"The database did not answer", "Broker does not work", broken.Reason, broken.Advice} {
		if code != 200 || !strings.Contains(body, text) {
			t.Errorf("%d, no %q in\n%s", code, text, body)
		}
	}
	if code, body := get(s, "/timers"); code != 503 || !strings.Contains(body, "did not answer") || strings.Contains(body, "closed") {
		t.Errorf("%d %s", code, body)
	}
}

// TestPagesWithoutABrokerChangeTheService: a program that handles events itself has no
// broker, but parked events, and a pause.
func TestPagesWithoutABrokerChangeTheService(t *testing.T) {
	t.Parallel()
	s, store := operated(t, func(opt *admin.Options) { opt.Broker = nil })
	token := with("full")
	parked, err := store.Parked(t.Context(), "", 0, 10)
	if err != nil || len(parked) != 2 {
		t.Fatal(parked, err)
	}
	seq := fmt.Sprint(parked[1].Seq)
	for path, want := range map[string]string{
		"/parked": "/do/retry-parked?filter=id%3d" + seq + "%26tenant%3dacme", "/tenants": "/do/forget?tenant=acme", "/": "/do/pause",
		"/do/retry-parked?filter=id%3D" + seq: "1 parked event of all tenants, id",
	} {
		if code, body := get(s, path, token...); code != 200 || !strings.Contains(body, want) || strings.Contains(body, "only reads") {
			t.Errorf("%s: %d, want %s\n%s", path, code, want, body)
		}
	}
	if code, body := get(s, "/timer?tenant=acme&call=order-3", token...); code != 200 || strings.Contains(body, "/do/cancel") {
		t.Errorf("a timer that can't be canceled without a broker: %d %s", code, body)
	}
	if code, body := submit(s, "/do/cancel", url.Values{"tenant": {"acme"}, "call": {"order-3"}}, token...); code != 503 || !strings.Contains(body, "this needs a broker") {
		t.Errorf("cancel: %d %s", code, body)
	}
	if code, body := submit(s, "/do/retry-parked", url.Values{"filter": {"id=" + seq}}, token...); code != 200 || !strings.Contains(body, "Done.") {
		t.Errorf("retry: %d %s", code, body)
	}
	if left, err := store.Parked(t.Context(), "", 0, 10); err != nil || len(left) != 1 {
		t.Errorf("%d events are parked still (%v)", len(left), err)
	}
}

// TestPagesOfAnOutageSayWhatIs: nothing that needs the broker works while it is away, and no page
// says so.
func TestPagesOfAnOutageSayWhatIs(t *testing.T) {
	t.Parallel()
	parts := []app.Check{
		{Part: "store"}, {Part: "broker", Reason: "no route to host", Advice: "repair the network", Red: true}, {Part: "intake"}, {Part: "poller"}, {Part: "clock"}, {Part: "forwarder"},
	}
	s, _ := operated(t, func(o *admin.Options) {
		o.Token, o.Monitor, o.History = "", watched(t, parts...), admin.NewHistory(new(app.Counters), nil)
	})
	if code, body := do(s, "POST", "/v1/firing:pause?tenant=acme"); code != 200 {
		t.Fatal(code, body)
	}
	_, body := get(s, "/")
	for _, text := range []string{
		"Not working: Broker.", "<b>Taking commands</b> <span>waits for Broker<", "<b>Firing timers</b> <span>waits for Broker<", "<b>Sending events</b> <span>waits for Broker<", "<b>Clock</b> <span>works",
	} {
		if !strings.Contains(body, text) {
			t.Errorf("the overview lacks %q:\n%s", text, body)
		}
	}
	for _, path := range []string{"/", "/timers", "/timer?tenant=acme&call=order-3", "/tenants"} {
		_, body := get(s, path)
		for _, text := range []string{"commands are taken", "On time", ">fires in"} {
			if strings.Contains(body, text) {
				t.Errorf("%s says %q during an outage:\n%s", path, text, body)
			}
		}
	}
}

// TestResultIsShownOnce, on the page that a change leads to, and a repeated load changes nothing.
func TestResultIsShownOnce(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, nil)
	w := post(s, "/do/pause", url.Values{"tenant": {"acme"}}, with("full")...)
	cookie := w.Result().Cookies()[0]
	if at := w.Header().Get("Location"); w.Code != 303 || at != "/tenants?tenant=acme" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
		t.Fatalf("%d %s %v", w.Code, at, cookie)
	}
	shows := func(w *httptest.ResponseRecorder) bool {
		return strings.Contains(w.Body.String(), "No timer of acme fires until")
	}
	header := append(with("full"), "Cookie", cookie.Name+"="+cookie.Value)
	if w := request(s, "GET", "/tenants", "", append(header, "HX-Request", "true")...); shows(w) || len(w.Result().Cookies()) > 0 {
		t.Error("a refresh takes it")
	}
	if w := request(s, "GET", "/tenants", "", header...); !shows(w) || w.Result().Cookies()[0].MaxAge != -1 {
		t.Errorf("%v\n%s", w.Result().Cookies(), w.Body)
	}
	if w := request(s, "GET", "/tenants", "", with("full")...); shows(w) {
		t.Error("it is shown again")
	}
}

// TestNavigationCountsWhatWaitsForAPerson: parked events, commands in the inbox, and commands that
// became dead letters since the start.
func TestNavigationCountsWhatWaitsForAPerson(t *testing.T) {
	t.Parallel()
	counters, b := new(app.Counters), channel(t)
	s, store := operated(t, func(o *admin.Options) {
		o.History, o.Broker = admin.NewHistory(counters, nil), b
		o.Waiting = func(context.Context, timer.TenantID) ([]timer.InboxCount, error) {
			return []timer.InboxCount{{TenantID: "acme", Reason: timer.WaitQuota, Messages: 3}, {TenantID: "acme", Reason: timer.WaitFailed, Messages: 4}}, nil
		}
	})
	a, err := app.New(store, b, quiet, app.Options{Counters: counters})
	must(t, err)
	during(t, a.Run)
	<-a.Running()
	counts := regexp.MustCompile(`>([A-Za-z ]+) <b class="count" title="[^"]+">([^<]+)</b>`)
	says := func(token string) (all []string) {
		_, body := get(s, "/parked", with(token)...)
		for _, found := range counts.FindAllStringSubmatch(body, -1) {
			all = append(all, found[1]+" "+html.UnescapeString(found[2]))
		}
		return all
	}
	want := []string{"Tenants 7 held", "Parked events 2"}
	if got := says("full"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if code, got, _ := send(t, s, "PUT", "/v1/tenants/acme/timers/far?wait=5s", `{"in":"9000d"}`, with("full")...); code != 422 {
		t.Errorf("%d %v", code, got)
	}
	want = slices.Insert(want, 1, "Dead letters +1")
	eventually(t, "a dead letter", func() bool { return slices.Equal(says("full"), want) })
	if got := says("acme"); len(got) > 0 {
		t.Errorf("a tenant sees %q", got)
	}
}

// TestPagesKeepTheirForm of dead letters, and of parked events, which bulk actions read, too.
func TestPagesKeepTheirForm(t *testing.T) {
	t.Parallel()
	s, _ := operated(t, func(opt *admin.Options) { opt.Monitor = watched(t) })
	for _, path := range []string{"/dead-letters", "/parked"} {
		if code, body := get(s, path+"?since=yesterday", with("full")...); code != 422 {
			t.Errorf("%s of a time that is none: %d %s", path, code, body)
		}
		code, body := get(s, path+"?tenant=acme&reason=a%26b&since=2026-01-01T00:01&after=1", with("full")...)
		if code == 200 && !strings.Contains(body, path+"?reason=a%26b&amp;since=2026-01-01T00%3A01&amp;tenant=acme\">First page") || code != 200 && code != 404 {
			t.Errorf("%s: the first page has another form: %d %s", path, code, body)
		}
	}
}

// TestPagesSayWhoIsThrottled, to a tenant of itself only.
func TestPagesSayWhoIsThrottled(t *testing.T) {
	t.Parallel()
	limits, err := quota.New(quota.Config{Tenants: map[timer.TenantID]quota.Limits{"globex": {Accept: quota.Rate{PerSecond: 0.5}}}}, timer.ClockFunc(time.Now), quota.Options{})
	must(t, err)
	s, _ := operated(t, func(opt *admin.Options) { opt.Quotas = limits })
	c := timer.ScheduleTimer{Key: timer.Key{TenantID: "globex", ServiceCallID: "order-1"}, DueAt: time.Now()}
	for i := range 2 {
		if exceeded, err := limits.Allow(t.Context(), nil, quota.Fresh, c); err != nil || (exceeded == nil) != (i == 0) {
			t.Fatal(exceeded, err)
		}
	}
	for token, want := range map[string]string{"full": "Throttled:</b> globex was over a quota", "globex": "Throttled:</b> your tenant was over a quota", "acme": ""} {
		_, body := get(s, "/timers", with(token)...)
		if !strings.Contains(body, want) || want == "" && strings.Contains(body, "Throttled") {
			t.Errorf("%s: no %q in %s", token, want, body)
		}
	}
}
