package admin_test

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

// secured returns a server with the token "secret".
func secured(t *testing.T) *admin.Server {
	t.Helper()
	return admin.New(quiet, admin.Options{Addr: ":8080", Token: "secret", Prefix: "/timers", Monitor: watched(t), Timers: seeded(t), Broker: channel(t)})
}

// TestErrorsAreProblems, and text outside of /v1 for clients that ask for it.
func TestErrorsAreProblems(t *testing.T) {
	t.Parallel()
	s := secured(t)
	check := func(method, path string, code int, header ...string) {
		t.Helper()
		w := request(s, method, path, "", header...)
		want := "application/problem+json"
		if strings.HasPrefix(header[0], "Accept") && !strings.Contains(path, "/v1/") {
			want = "text/plain; charset=utf-8"
		}
		if w.Code != code || w.Header().Get("Content-Type") != want {
			t.Errorf("%s %s: %d %v %s", method, path, w.Code, w.Header(), w.Body)
		}
	}
	const text, scrape = "text/html,*/*;q=0.8", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
	useTokens(t, s, tenantTokens)
	for _, path := range []string{"/timers/v1/stats", "/timers/v2/stats", "/timers/metrics", "/timers/docs", "/timers/openapi.json"} {
		check("GET", path, 401, "", "")
		check("GET", path, 401, "Accept", scrape)
		check("POST", path, 401, "Accept", text)
	}
	check("GET", "/timers/v2/stats", 404, "Authorization", "Bearer secret")
	check("GET", "/timers/v1/stats", 403, "Authorization", "Bearer acme")
	check("POST", "/timers/login", 403, "Sec-Fetch-Site", "cross-site")
	check("POST", "/timers/login", 403, "Accept", text, "Sec-Fetch-Site", "cross-site")
	for header, says := range map[string]string{"Bearer wrong": "the token is wrong", "Bearer": "a token is needed", "Basic c2VjcmV0": "a token is needed"} {
		if code, text := get(s, "/timers/v1/stats", "Authorization", header); code != 401 || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s, want %s", header, code, text, says)
		}
	}
	check("DELETE", "/timers/v1/tenants/acme/timers/order-1", 403, "Authorization", "Bearer secret", "Origin", "https://evil.example")
	for range 10 {
		get(s, "/timers/v1/stats", "Authorization", "Bearer guess")
	}
	check("GET", "/timers/v1/stats", 429, "Authorization", "Bearer secret")
}

// TestBrowserLogsIn from a page that it is sent away from, and out again.
func TestBrowserLogsIn(t *testing.T) {
	t.Parallel()
	s := secured(t)
	w := request(s, "GET", "/timers/docs?a=1", "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	at := w.Header().Get("Location")
	if w.Code != 303 || at != "/timers/login?next=%2Ftimers%2Fdocs%3Fa%3D1" {
		t.Fatalf("%d %s", w.Code, at)
	}
	code, page := get(s, at)
	if code != 200 || !strings.Contains(page, `name="next" value="/timers/docs?a=1"`) || !strings.Contains(page, `action="/timers/login"`) || strings.Contains(page, "<script") {
		t.Fatalf("%d %s", code, page)
	}
	form := url.Values{"token": {"secret"}, "next": {"/timers/docs?a=1"}}
	answer := post(s, "/timers/login", form).Result()
	cookies := answer.Cookies()
	if answer.StatusCode != 303 || answer.Header.Get("Location") != "/timers/docs?a=1" || len(cookies) != 1 {
		t.Fatalf("%d %v", answer.StatusCode, answer.Header)
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/timers/" || c.MaxAge != 12*3600 || len(c.Value) < 20 || strings.Contains(c.String(), "secret") {
		t.Errorf("the cookie: %v", c)
	}
	if forged := post(s, "/timers/login", form, "X-Forwarded-Proto", "https").Result().Cookies(); forged[0].Secure {
		t.Errorf("with a header that anybody may send: %v", forged)
	}
	session := c.Name + "=" + c.Value
	if code, _ := get(s, "/timers/v1/stats", "Cookie", session); code != 200 {
		t.Errorf("with the session: %d", code)
	}
	if code, _ := get(s, "/timers/v1/stats", "Cookie", session, "Authorization", "Bearer wrong"); code != 401 {
		t.Errorf("with the session and a wrong token: %d", code)
	}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
		if code, text := do(s, "DELETE", "/timers/v1/tenants/acme/timers/order-4", append([]string{"Cookie", session}, header...)...); code != 403 {
			t.Errorf("a write of another site, %v: %d %s", header, code, text)
		}
	}
	if code, text := do(s, "DELETE", "/timers/v1/tenants/acme/timers/order-4", "Cookie", session, "Sec-Fetch-Site", "same-origin"); code != 202 {
		t.Errorf("a write of its own pages: %d %s", code, text)
	}
	answer = post(s, "/timers/logout", nil, "Cookie", session).Result()
	if answer.StatusCode != 303 || answer.Header.Get("Location") != "/timers/login" || answer.Cookies()[0].MaxAge != -1 {
		t.Errorf("%d %v", answer.StatusCode, answer.Header)
	}
	if c := answer.Cookies()[0]; c.Name != "timer_session" || c.Value != "" || c.Path != "/timers/" {
		t.Errorf("after the logout the browser keeps %v", c)
	}
}

// TestLoginIsGoodForEveryInstance with the same token of all, unless that can be guessed.
func TestLoginIsGoodForEveryInstance(t *testing.T) {
	t.Parallel()
	const long, other = "0123456789abcdef", "fedcba9876543210"
	instance := func(token string) *admin.Server {
		s := admin.New(quiet, admin.Options{Token: token, Monitor: admin.NewMonitor(nil, quiet)})
		useTokens(t, s, map[timer.TenantID][]string{"acme": {"of acme"}})
		return s
	}
	for _, test := range []struct {
		here, there, token string
		code               int
	}{
		{long, long, long, 404}, {long, long, "of acme", 404}, {long, other, "of acme", 401}, {"short", "short", "short", 401}, {"short", "short", "of acme", 401},
	} {
		here := instance(test.here)
		session := post(here, "/login", url.Values{"token": {test.token}}).Result().Cookies()[0].Value
		if code, _ := get(here, "/none", "Cookie", "timer_session="+session); code != 404 {
			t.Errorf("%+v: here %d", test, code)
		}
		if code, _ := get(instance(test.there), "/none", "Cookie", "timer_session="+session); code != test.code {
			t.Errorf("%+v: on another instance %d", test, code)
		}
		for i := range session { // any change
			changed := []byte(session)
			changed[i] = map[bool]byte{true: 'B', false: 'A'}[changed[i] == 'A']
			if i == len(session)-1 {
				changed = changed[:i] // its last bits stand for nothing
			}
			if code, _ := get(here, "/none", "Cookie", "timer_session="+string(changed)); code != 401 {
				t.Errorf("%+v: with another byte %d: %d", test, i, code)
			}
		}
	}
}

// TestCookieIsForTLS alone where browsers use it: by http_origin, by a trusted proxy, or by our own.
func TestCookieIsForTLS(t *testing.T) {
	t.Parallel()
	proxy := netip.MustParsePrefix("192.0.2.0/24") // of httptest's requests
	for what, test := range map[string]struct {
		opt    admin.Options
		header []string
		tls    bool
		secure bool
	}{
		"plain":                {admin.Options{}, nil, false, false},
		"a forged header":      {admin.Options{}, []string{"X-Forwarded-Proto", "https"}, false, false},
		"a trusted proxy":      {admin.Options{Proxies: []netip.Prefix{proxy}}, []string{"X-Forwarded-Proto", "https"}, false, true},
		"a proxy without TLS":  {admin.Options{Proxies: []netip.Prefix{proxy}}, []string{"X-Forwarded-Proto", "http"}, false, false},
		"the origin":           {admin.Options{Origin: "https://timers.example"}, nil, false, true},
		"an origin of no TLS":  {admin.Options{Origin: "http://timers.example"}, []string{"X-Forwarded-Proto", "https"}, false, false},
		"a connection with it": {admin.Options{}, nil, true, true},
	} {
		test.opt.Token, test.opt.Monitor = "secret", admin.NewMonitor(nil, quiet)
		r := httptest.NewRequest("POST", "http://timers.example/login", strings.NewReader("token=secret"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(test.header); i += 2 {
			r.Header.Set(test.header[i], test.header[i+1])
		}
		if test.tls {
			r.TLS = new(tls.ConnectionState)
		}
		w := httptest.NewRecorder()
		admin.New(quiet, test.opt).ServeHTTP(w, r)
		if cookies := w.Result().Cookies(); len(cookies) != 1 || cookies[0].Secure != test.secure {
			t.Errorf("%s: %v, want it secure: %v", what, cookies, test.secure)
		}
	}
}

// TestReasonsNeedAToken of all tenants: they name hosts and tenants. A probe without a token has
// the states.
func TestReasonsNeedAToken(t *testing.T) {
	t.Parallel()
	s := admin.New(quiet, admin.Options{Addr: ":8080", Token: "secret", Monitor: watched(t, app.Check{Part: "store"}, broken)})
	all := append(ofTenants(map[timer.TenantID][]string{"acme": {"of acme"}}), config.Token{Name: "grafana", Role: config.Metrics, Hash: sha256.Sum256([]byte("metrics"))}, config.Token{Name: "bob", Role: config.Read, Hash: sha256.Sum256([]byte("bob"))})
	must(t, s.UseTokens(all))
	for token, told := range map[string]bool{"": false, "guess": false, "of acme": false, "metrics": false, "secret": true, "bob": true} {
		for _, accept := range []string{"text/plain", "application/json"} {
			for _, path := range []string{"/readyz", "/readyz?verbose"} {
				code, text := get(s, path, "Accept", accept, "Authorization", "Bearer "+token)
				if code != 503 || !strings.Contains(text, "broker") || strings.Contains(text, broken.Reason) != told || strings.Contains(text, broken.Advice) != told {
					t.Errorf("%s as %s with %q: %d, want reasons: %v\n%s", path, accept, token, code, told, text)
				}
			}
		}
	}
	session := "timer_session=" + post(s, "/login", url.Values{"token": {"secret"}}).Result().Cookies()[0].Value
	if _, text := get(s, "/readyz", "Cookie", session); !strings.Contains(text, broken.Reason) {
		t.Errorf("with a session: %s", text)
	}
}

// TestLoginGoesNowhereElse: what next names is a path of this server.
func TestLoginGoesNowhereElse(t *testing.T) {
	t.Parallel()
	s := secured(t)
	for _, next := range []string{"https://evil.example", "//evil.example", `/\evil.example`, "javascript:alert(1)", "/a\r\nSet-Cookie: a=b", "", "\x00", "/\t/evil.example"} {
		answer := post(s, "/timers/login", url.Values{"token": {"secret"}, "next": {next}})
		if at := answer.Header().Get("Location"); answer.Code != 303 || at != "/timers/" || len(answer.Header().Values("Set-Cookie")) != 1 {
			t.Errorf("%q: %d %q", next, answer.Code, at)
		}
	}
	if _, page := get(s, `/timers/login?next=%2F"><script>alert(1)</script>`); strings.Contains(page, "<script>") {
		t.Error(page)
	}
}

// TestSessionsEnd after twelve hours, and with their token.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := admin.New(quiet, admin.Options{Addr: ":8080", Token: "secret", Monitor: admin.NewMonitor(nil, quiet)})
		useTokens(t, s, map[timer.TenantID][]string{"acme": {"of acme"}})
		login := func(token string) string {
			return "timer_session=" + post(s, "/login", url.Values{"token": {token}}).Result().Cookies()[0].Value
		}
		code := func(session string) int {
			code, _ := get(s, "/none", "Cookie", session)
			return code
		}
		full, tenant := login("secret"), login("of acme")
		if code(full) != 404 || code(tenant) != 404 || code("timer_session=secret") != 401 || code("timer_session=") != 401 {
			t.Errorf("%d %d", code(full), code(tenant))
		}
		useTokens(t, s, nil)
		if code(full) != 404 || code(tenant) != 401 {
			t.Errorf("without the token of the tenant: %d %d", code(full), code(tenant))
		}
		time.Sleep(12*time.Hour - time.Second)
		if code(full) != 404 {
			t.Error("ended too soon")
		}
		time.Sleep(time.Second)
		if code(full) != 401 {
			t.Error("did not end")
		}
		for range 10 {
			if answer := post(s, "/login", url.Values{"token": {"guess"}}); answer.Code != 401 || len(answer.Result().Cookies()) != 0 {
				t.Error(answer.Code)
			}
		}
		if answer := post(s, "/login", url.Values{"token": {"secret"}}); answer.Code != 429 {
			t.Errorf("after ten guesses: %d", answer.Code)
		}
	})
}

// TestGuessesAreSlowedDown: after ten wrong tokens of an address only a token passes that is
// too long to be guessed. A right token forgets no guess: otherwise the token of a tenant would let
// its owner guess others without end.
func TestGuessesAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long, short = "0123456789abcdef", "secret"
		s := admin.New(quiet, admin.Options{Token: short, Monitor: admin.NewMonitor(nil, quiet)})
		useTokens(t, s, map[timer.TenantID][]string{"acme": {long}})
		expect := func(when string, codes map[string]int) {
			t.Helper()
			for token, want := range codes {
				if code, _ := get(s, "/none", "Authorization", "Bearer "+token); code != want {
					t.Errorf("%s: %s: %d, want %d", when, token, code, want)
				}
			}
		}
		for range 10 {
			expect("too soon", map[string]int{"guess": 401, long: 404})
		}
		expect("after ten guesses", map[string]int{long: 404, short: 429, "guess": 429})
		time.Sleep(6 * time.Second)
		expect("some seconds later", map[string]int{short: 404})
	})
}

// TestGuessesOfANetworkCountTogether: a client has a /64 of IPv6 to itself. Of many addresses the
// oldest is forgotten, and no other.
func TestGuessesOfANetworkCountTogether(t *testing.T) {
	t.Parallel()
	var s *admin.Server
	begin := func() { s = admin.New(quiet, admin.Options{Token: "secret", Monitor: admin.NewMonitor(nil, quiet)}) }
	guess := func(address string) int {
		r := httptest.NewRequest("GET", "/none", nil)
		r.RemoteAddr = net.JoinHostPort(address, "1234")
		r.Header.Set("Authorization", "Bearer guess")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	expect := func(address string, want int) {
		t.Helper()
		if code := guess(address); code != want {
			t.Errorf("%s: %d, want %d", address, code, want)
		}
	}
	begin()
	for i := range 10 {
		expect(fmt.Sprintf("2001:db8::%x:1", i), 401)
		expect(fmt.Sprintf("::ffff:192.0.2.%d", i), 401)
	}
	expect("2001:db8::a:1", 429)
	expect("2001:db8:0:1::1", 401)
	expect("192.0.2.1", 401) // IPv4 addresses are no network

	begin()
	for i := range 9_999 {
		guess(fmt.Sprintf("10.0.%d.%d", i/256, i%256))
	}
	for range 10 {
		expect("192.0.2.99", 401)
	}
	guess("192.0.2.100") // the oldest one goes
	expect("192.0.2.99", 429)
}

// TestTenantTokensAreOfOneTenant: others are refused.
func TestTenantTokensAreOfOneTenant(t *testing.T) {
	t.Parallel()
	s := secured(t)
	for _, tokens := range []map[timer.TenantID][]string{{"acme": {"b"}, "globex": {"b"}}, {"acme": {""}}, {"acme": {"secret"}}} {
		if err := s.UseTokens(ofTenants(tokens)); err == nil {
			t.Errorf("%v was taken", tokens)
		}
	}
}

// TestProfilesAreOffUntilTheyAreOn: the handler that is given sees the paths without the prefix.
func TestProfilesAreOffUntilTheyAreOn(t *testing.T) {
	t.Parallel()
	profiles := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/debug/pprof/") {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	for want, opt := range map[int]admin.Options{404: {}, 200: {Profiles: profiles}} {
		opt.Monitor, opt.Prefix = watched(t), "/timers"
		s := admin.New(quiet, opt)
		for _, path := range []string{"/timers/debug/pprof/", "/timers/debug/pprof/heap", "/timers/debug/pprof/cmdline"} {
			if code, _ := get(s, path); code != want {
				t.Errorf("%s: %d, want %d", path, code, want)
			}
		}
	}
}

// TestHostileTextGetsNowhere: it is refused, and makes no line of its own in the log or
// in a header.
func TestHostileTextGetsNowhere(t *testing.T) {
	t.Parallel()
	log := new(logbuf.Buffer)
	s := admin.New(slog.New(slog.NewTextHandler(log, nil)), admin.Options{Addr: "127.0.0.1:8080", Monitor: watched(t), Timers: seeded(t), Broker: channel(t)})
	for _, text := range []string{"..%2Fglobex", "%2e%2e", "acme%2F..%2Fglobex", "acme%00", "%00", "acm%C3%A9", "acme%0d%0aX:1", "%0d%0alevel=ERROR%20msg=forged", "%E2%80%AE", "%ff", "acme;a=b", "acme%25", "%EF%BC%AEacme"} {
		for method, target := range map[string]string{
			"GET": "/v1/tenants/" + text + "/timers/order-1", "PUT": "/v1/tenants/" + text + "/timers/order-1", "DELETE": "/v1/tenants/acme/timers/" + text + "%0a",
			"POST": "/v1/" + text + "/dead-letters:replay",
		} {
			body := ""
			if method == "PUT" {
				body = `{"in":"1h"}`
			}
			w := request(s, method, target, body, "Content-Type", "application/json", "Traceparent", "00-a\r\nX: 1")
			if w.Code != 404 && w.Code != 422 || w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("X") != "" {
				t.Errorf("%s %s: %d %v %s", method, target, w.Code, w.Header(), w.Body)
			}
		}
	}
	for name, value := range map[string]string{"correlationId": "a\r\nb", "data": "\r\nlevel=ERROR msg=forged"} {
		body := fmt.Sprintf(`{"in":"1h",%q:%q}`, name, value)
		if code, got, _ := send(t, s, "PUT", "/v1/tenants/acme/timers/new", body, "Traceparent", "\r\nlevel=ERROR", "User-Agent", "a\r\nb"); code != 422 && code != 202 {
			t.Errorf("%s: %d %v", name, code, got)
		}
	}
	for line := range strings.Lines(log.String()) {
		if !strings.HasPrefix(line, "time=") || strings.HasPrefix(line, "level=ERROR") {
			t.Errorf("in the log: %s", line)
		}
	}
}
