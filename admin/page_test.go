package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/timer"
)

// submit sends a form as a browser does.
func submit(s http.Handler, path string, form url.Values, header ...string) (int, string) {
	r := httptest.NewRequest(http.MethodPost, "http://localhost:8080"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestPagesShowOneTenantToItsToken, and let it change no other.
func TestPagesShowOneTenantToItsToken(t *testing.T) {
	t.Parallel()
	store := seeded(t) // order-1 of globex has the correlation id of order-1 of acme
	s := admin.New(quiet, admin.Options{Token: "full", Monitor: watched(t), Timers: store, Operator: store, Service: onStore{store}, Broker: channel(t)})
	if err := s.UseTenantTokens(map[timer.TenantID][]string{"acme": {"of acme"}}); err != nil {
		t.Fatal(err)
	}
	token := []string{"Authorization", "Bearer of acme"}
	for path, want := range map[string]int{
		"/": 303, "/nodes": 403, "/audit": 403,
		"/timers": 200, "/timers?tenant=acme": 200, "/timers?tenant=globex": 404, "/tenants": 200, "/parked": 200, "/dead-letters": 200,
		"/timer?tenant=acme&call=order-1": 200, "/timer?tenant=globex&call=order-1": 404, "/parked?tenant=globex": 404, "/dead-letters?tenant=_": 404,
		"/search?q=globex": 200, "/do/cancel?tenant=globex&call=order-1": 404, "/do/forget?tenant=globex": 404, "/do/forget?tenant=acme": 403, "/do/cancel?tenant=acme&call=order-3": 200,
	} {
		code, body := get(s, path, token...)
		if code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
		if rest := strings.ReplaceAll(strings.ReplaceAll(body, `value="globex"`, ""), "<b>globex</b>", ""); strings.Contains(rest, "globex") {
			t.Errorf("%s names another tenant:\n%s", path, body)
		}
	}
	if code, body := get(s, "/search?q=req-7", token...); code != 303 || strings.Contains(body, "globex") {
		t.Errorf("search by a correlation id that two tenants use: %d %s", code, body)
	}
	for path, form := range map[string]url.Values{
		"/do/cancel":  {"tenant": {"globex"}, "call": {"order-1"}},
		"/do/forget":  {"tenant": {"acme"}, "confirm": {"acme"}},
		"/do/discard": {"tenant": {"globex"}, "id": {"any"}},
		"/do/pause":   {},
	} {
		if code, body := submit(s, path, form, token...); code != 404 && code != 403 || strings.Contains(body, "Done.") {
			t.Errorf("POST %s: %d %s", path, code, body)
		}
	}
	if _, body := get(s, "/tenants", token...); strings.Contains(body, "/do/forget") {
		t.Errorf("the tenant is offered to forget itself:\n%s", body)
	}
	if c, err := store.Stats(t.Context(), "acme"); err != nil || c.Total() != 4 {
		t.Errorf("the tenant has %+v (%v)", c.Counts, err)
	}
	if e, err := store.Get(t.Context(), timer.Key{TenantID: "globex", ServiceCallID: "order-1"}); err != nil || e.State != timer.Scheduled {
		t.Errorf("the timer of another tenant: %v %v", e, err)
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
	if err := s.UseTenantTokens(tenantTokens); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int{"acme": 303, "globex": 200, "full": 200} { // 303: to the only one
		if code, body := get(s, "/search?q=req-7", with(token)...); code != want || strings.Contains(body, "aa-other") != (token == "full") {
			t.Errorf("%s: %d %s", token, code, body)
		}
	}
}

// TestPagesOfOtherSitesChangeNothing though the browser has a session.
func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	store := seeded(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: store, Operator: store, Service: onStore{store}, Broker: channel(t)})
	form := url.Values{"tenant": {"globex"}}
	if code, _ := submit(s, "/do/forget", form, "Sec-Fetch-Site", "cross-site"); code != 403 {
		t.Errorf("from another site: %d", code)
	}
	if code, body := get(s, "/do/forget?tenant=globex"); code != 200 || !strings.Contains(body, "1 timer to delete: 1 waiting, 0 fired") || !strings.Contains(body, `<input name="confirm" required`) {
		t.Errorf("the question: %d %s", code, body)
	}
	for _, typed := range []string{"", "Globex", "acme"} {
		form.Set("confirm", typed)
		if code, body := submit(s, "/do/forget", form, "Sec-Fetch-Site", "same-origin"); code != 422 || !strings.Contains(body, "nothing was deleted") {
			t.Errorf("the name %q: %d %s", typed, code, body)
		}
	}
	if c, err := store.Stats(t.Context(), "globex"); err != nil || c.Scheduled != 1 {
		t.Fatalf("asked only, and there are %v (%v)", c, err)
	}
	form.Set("confirm", "globex")
	if code, body := submit(s, "/do/forget", form, "Sec-Fetch-Site", "same-origin"); code != 200 || !strings.Contains(body, "Done.") {
		t.Errorf("from our page: %d %s", code, body)
	}
	if c, err := store.Stats(t.Context(), "globex"); err != nil || c.Total() != 0 {
		t.Errorf("there are %v (%v)", c, err)
	}
}

// TestPagesRefuseWhatIsNoForm, no tenant, or no page.
func TestPagesRefuseWhatIsNoForm(t *testing.T) {
	t.Parallel()
	store := seeded(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: store, Operator: store, Service: onStore{store}, Broker: channel(t)})
	post := func(path, body string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "http://localhost:8080"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, test := range []struct {
		path, body string
		code       int
	}{
		{"/do/pause", "a=%zz", 400},
		{"/do/pause", "a=" + strings.Repeat("x", 80_000), 413},
		{"/do/discard", "id=1", 400},
		{"/do/replay", "id=1", 400},
		{"/do/forget", "", 400},
		{"/do/cancel", "call=order-1", 400},
		{"/do/discard", "id=nothing&tenant=acme", 404},
	} {
		if code, body := post(test.path, test.body); code != test.code || strings.Contains(body, "Done.") {
			t.Errorf("POST %s %.20s: %d, want %d: %s", test.path, test.body, code, test.code, body)
		}
	}
	for _, path := range []string{"/timers?after=", "/timers?tenant=acme&after=", "/tenants?after=", "/dead-letters?tenant=acme&after=", "/parked?after="} {
		if code, body := get(s, path+"%00"); code != 400 {
			t.Errorf("%s: %d, want 400: %s", path, code, body)
		}
	}
	if code, _ := get(s, "/parked?after=-1"); code != 400 {
		t.Errorf("a page of parked events before the first: %d", code)
	}
}

// TestPageCancelsOnlyWhatWaits: no command is sent for what has fired, nor for what
// there is not, of which a tombstone would stay.
func TestPageCancelsOnlyWhatWaits(t *testing.T) {
	t.Parallel()
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: channel(t)})
	for call, want := range map[string]struct {
		code int
		says string
	}{
		"order-3": {200, "Done."}, "order-1": {409, "Not done:</b> already reached at 20"}, "never": {404, "Not done:</b> there is no such timer"}, "a b": {422, "Not done:</b> "},
	} {
		if code, body := submit(s, "/do/cancel", url.Values{"tenant": {"acme"}, "call": {call}}); code != want.code || !strings.Contains(body, want.says) {
			t.Errorf("%s: %d, no %q in\n%s", call, code, want.says, body)
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
		"overdue":      {1, timer.MaxPage + 1, fired, "among the 1,000 oldest of them", "by name"},
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

// TestListsSayWhenATimerFired, and not how late: that is until the broker's ack.
func TestListsSayWhenATimerFired(t *testing.T) {
	t.Parallel()
	_, body := get(admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t)}), "/timers?tenant=acme")
	if at := fired.Format("2006-01-02 15:04:05.000"); strings.Count(body, at) < 2 || strings.Contains(body, "after due") {
		t.Errorf("no second %s in\n%s", at, body)
	}
}

// TestPageOfAForgetThatIsNotComplete says how much was deleted, and to ask again.
func TestPageOfAForgetThatIsNotComplete(t *testing.T) {
	t.Parallel()
	store := seeded(t)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: store, Operator: store, Service: onStore{store}, Broker: channel(t)})
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
	for _, text := range []string{"7 timers deleted, not all", "failed: disk full; 7 timers deleted", "1 timer deleted"} {
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
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
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

// TestPrefixAloneIsTheFirstPage though it has no slash at its end.
func TestPrefixAloneIsTheFirstPage(t *testing.T) {
	t.Parallel()
	s := admin.New(quiet, admin.Options{Prefix: "/timers", Monitor: watched(t), Timers: seeded(t)})
	r := httptest.NewRequest(http.MethodGet, "http://localhost/timers", nil)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if to := w.Header().Get("Location"); w.Code != http.StatusTemporaryRedirect || to != "/timers/" {
		t.Errorf("%d to %q", w.Code, to)
	}
	if code, _ := get(s, "/timers/"); code != 200 {
		t.Error(code)
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
		"/parked": "/do/retry-parked?tenant=acme&amp;seq=" + seq, "/tenants": "/do/forget?tenant=acme", "/": "/do/pause",
		"/do/retry-parked?tenant=acme&seq=" + seq: "Retry this event",
	} {
		if code, body := get(s, path, token...); code != 200 || !strings.Contains(body, want) || strings.Contains(body, "only reads") {
			t.Errorf("%s: %d, want %s\n%s", path, code, want, body)
		}
	}
	if code, body := get(s, "/timer?tenant=acme&call=order-3", token...); code != 200 || strings.Contains(body, "/do/cancel") {
		t.Errorf("a timer that can't be canceled without a broker: %d %s", code, body)
	}
	if code, body := get(s, "/do/cancel?tenant=acme&call=order-3", token...); code != 503 || !strings.Contains(body, "this needs a broker") {
		t.Errorf("cancel: %d %s", code, body)
	}
	if code, body := submit(s, "/do/retry-parked", url.Values{"seq": {seq}}, token...); code != 200 || !strings.Contains(body, "Done.") {
		t.Errorf("retry: %d %s", code, body)
	}
	if left, err := store.Parked(t.Context(), "", 0, 10); err != nil || len(left) != 1 {
		t.Errorf("%d events are parked still (%v)", len(left), err)
	}
}
