package admin_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

var quiet = slog.New(slog.DiscardHandler)

// broken is a check that is red.
var broken = app.Check{Part: "broker", Reason: "connection refused", Advice: "start the broker", Red: true}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watched returns a monitor that has seen checks once.
func watched(t *testing.T, checks ...app.Check) *admin.Monitor {
	t.Helper()
	m := admin.NewMonitor(func(context.Context) []app.Check { return checks }, quiet)
	during(t, m.Run)
	for m.Health().At.IsZero() {
		runtime.Gosched()
	}
	return m
}

// request sends a request to a server as to localhost, with headers in pairs of a name and a
// value.
func request(s http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost:8080"+target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// do sends a request without a body, and returns the code and the text of the answer.
func do(s http.Handler, method, target string, header ...string) (int, string) {
	w := request(s, method, target, "", header...)
	return w.Code, w.Body.String()
}

// get asks a server, and returns the code and the text of its answer.
func get(s http.Handler, path string, header ...string) (int, string) {
	return do(s, http.MethodGet, path, header...)
}

// post sends a form as a browser does.
func post(s http.Handler, path string, form url.Values, header ...string) *httptest.ResponseRecorder {
	return request(s, http.MethodPost, path, form.Encode(), append(header, "Content-Type", "application/x-www-form-urlencoded")...)
}

// submit sends a form, and returns the code and the text of the answer.
// A change that was made leads to another page, which shows the result: that is followed.
func submit(s http.Handler, path string, form url.Values, header ...string) (int, string) {
	w := post(s, path, form, header...)
	if cookies := w.Result().Cookies(); w.Code == http.StatusSeeOther && len(cookies) == 1 {
		return get(s, w.Header().Get("Location"), append([]string{"Cookie", cookies[0].Name + "=" + cookies[0].Value}, header...)...)
	}
	return w.Code, w.Body.String()
}

// parsed returns the fields of a form.
func parsed(t testing.TB, text string) url.Values {
	t.Helper()
	form, err := url.ParseQuery(text)
	must(t, err)
	return form
}

// ofTenants returns tokens of tenants.
func ofTenants(tokens map[timer.TenantID][]string) (all []config.Token) {
	for tenant, texts := range tokens {
		for _, text := range texts {
			all = append(all, config.Token{Name: string(tenant), Tenant: tenant, Role: config.Operate, Hash: sha256.Sum256([]byte(text))})
		}
	}
	return all
}

// useTokens has a server know the tokens of tenants.
func useTokens(t testing.TB, s *admin.Server, tokens map[timer.TenantID][]string) {
	t.Helper()
	must(t, s.UseTokens(ofTenants(tokens)))
}

func TestReadyzSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	ok := app.Check{Part: "store"}
	waits := app.Check{Part: "poller", Reason: "nothing fires before the commands were read", Advice: "wait"}
	for name, test := range map[string]struct {
		checks  []app.Check
		path    string
		code    int
		has     []string
		hasNone []string
	}{
		"green":            {[]app.Check{ok, waits}, "/readyz", 200, []string{"ready\n"}, []string{"not ready", "store", "poller"}},
		"green, verbose":   {[]app.Check{ok, waits}, "/readyz?verbose", 200, []string{"[+] store", "ok since", "[+] poller", waits.Reason, waits.Advice}, nil},
		"red":              {[]app.Check{ok, broken}, "/readyz", 503, []string{"not ready\n", "[-] broker", broken.Reason, broken.Advice}, []string{"store"}},
		"red, verbose":     {[]app.Check{ok, broken}, "/readyz?verbose", 503, []string{"[+] store", "[-] broker"}, nil},
		"alive though red": {[]app.Check{broken}, "/livez", 200, []string{"alive"}, nil},
		"another path":     {[]app.Check{ok}, "/", 404, nil, nil},
	} {
		code, body := get(admin.New(quiet, admin.Options{Addr: "127.0.0.1:8080", Monitor: watched(t, test.checks...)}), test.path)
		if code != test.code {
			t.Errorf("%s: %d, want %d", name, code, test.code)
		}
		for _, text := range test.has {
			if !strings.Contains(body, text) {
				t.Errorf("%s: no %q in\n%s", name, text, body)
			}
		}
		for _, text := range test.hasNone {
			if strings.Contains(body, text) {
				t.Errorf("%s: %q in\n%s", name, text, body)
			}
		}
	}
}

func TestReadyzAsJSON(t *testing.T) {
	t.Parallel()
	s := admin.New(quiet, admin.Options{Monitor: watched(t, app.Check{Part: "store"}, broken)})
	code, body := get(s, "/readyz", "Accept", "application/json")
	var got struct {
		Ready bool
		Parts []struct {
			Part, Reason, Advice string
			OK                   bool
			Since                time.Time
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != 503 || got.Ready || len(got.Parts) != 2 {
		t.Fatalf("%d %s %v", code, body, err)
	}
	if p := got.Parts[1]; p.Part != "broker" || p.OK || p.Reason != broken.Reason || p.Advice != broken.Advice || time.Since(p.Since) > time.Minute {
		t.Errorf("%+v", p)
	}
}

// TestMonitorKnowsSinceWhen has a part turn red and green again.
func TestMonitorKnowsSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logbuf.Buffer)
		var check atomic.Pointer[app.Check]
		check.Store(&app.Check{Part: "broker"})
		m := admin.NewMonitor(func(context.Context) []app.Check { return []app.Check{*check.Load()} }, slog.New(slog.NewTextHandler(log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		if m.Health().Ready() {
			t.Error("ready before anything was checked")
		}
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		after := func(d time.Duration) admin.Health {
			time.Sleep(d)
			synctest.Wait()
			return m.Health()
		}
		began := time.Now()
		if h := after(time.Minute); !h.Ready() || !h.Parts[0].Since.Equal(began) {
			t.Errorf("at first: %+v", h)
		}
		check.Store(&broken)
		changed := time.Now()
		h := after(2 * time.Second)
		if h.Ready() || h.Parts[0].Since.Before(changed) || h.Parts[0].Since.After(changed.Add(time.Second)) {
			t.Errorf("red: %+v, changed at %v", h, changed)
		}
		since := h.Parts[0].Since
		check.Store(&app.Check{Part: "broker", Reason: "timeout", Red: true})
		if h := after(time.Hour); !h.Parts[0].Since.Equal(since) || h.Parts[0].Reason != "timeout" {
			t.Errorf("red for an hour, with another reason: %+v", h)
		}
		check.Store(&app.Check{Part: "broker"})
		if h := after(2 * time.Second); !h.Ready() {
			t.Errorf("green again: %+v", h)
		}
		for _, line := range []string{`level=WARN msg="not ready" part=broker reason="connection refused"`, `level=INFO msg="ready again" part=broker after=1h0m`} {
			if strings.Count(log.String(), line) != 1 {
				t.Errorf("no %q in the log, or several:\n%s", line, log)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !m.Alive() {
			t.Error("dead at once")
		}
		if !m.Health().Ready() {
			t.Error("not ready at once")
		}
		time.Sleep(time.Minute)
		if h := m.Health(); h.Ready() || !strings.HasPrefix(h.Parts[len(h.Parts)-1].Reason, "nothing was checked for 1m0") {
			t.Errorf("nothing was checked for a minute: %+v", h)
		}
		if m.Alive() {
			t.Error("alive, and nothing was checked for a minute")
		}
		if code, body := get(admin.New(quiet, admin.Options{Monitor: m}), "/livez"); code != 503 || !strings.Contains(body, "dead") {
			t.Errorf("%d %s", code, body)
		}
	})
}

func TestTokenIsNeededBesideProbes(t *testing.T) {
	t.Parallel()
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("timer_up 1\n")) })
	s := admin.New(quiet, admin.Options{Addr: ":8080", Token: "secret", Prefix: "/timers", Monitor: watched(t), Metrics: metrics})
	for name, test := range map[string]struct {
		path, authorization string
		code                int
	}{
		"no token":              {"/timers/metrics", "", 401},
		"the token":             {"/timers/metrics", "Bearer secret", 200},
		"lower case":            {"/timers/metrics", "bearer secret", 200},
		"another token":         {"/timers/metrics", "Bearer secre", 401},
		"another scheme":        {"/timers/metrics", "Basic secret", 401},
		"a prober":              {"/timers/readyz", "", 200},
		"a prober of life":      {"/timers/livez", "", 200},
		"no such path":          {"/timers/none", "", 401},
		"without the prefix":    {"/metrics", "Bearer secret", 404},
		"a path around it":      {"/timers/livez/../metrics", "", 401},
		"a path that is double": {"/timers//livez", "", 401},
	} {
		if code, body := get(s, test.path, "Authorization", test.authorization, "Host", "timers.example"); code != test.code || strings.Contains(body, "secret") {
			t.Errorf("%s: %d %s, want %d", name, code, body, test.code)
		}
	}
}

// TestListensElsewhereOnlyIfItMay has the address in use.
func TestListensElsewhereOnlyIfItMay(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	addr := taken.Addr().String()
	if err := admin.New(quiet, admin.Options{Addr: addr}).Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "set http_addr") {
		t.Errorf("a chosen address in use: %v", err)
	}
	log := new(logbuf.Buffer)
	s := admin.New(slog.New(slog.NewTextHandler(log, nil)), admin.Options{Addr: addr, AnyPort: true, Prefix: "/timers", Monitor: watched(t)})
	must(t, s.Listen(t.Context()))
	during(t, s.Run)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Address()+"/readyz", nil)
	must(t, err)
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != 200 || !strings.Contains(log.String(), "is in use") || strings.Contains(s.Address(), addr) {
		t.Errorf("%v, %v at %s, and the log says %s", answer, err, s.Address(), log)
	}
	if err == nil {
		_ = answer.Body.Close()
	}
}
