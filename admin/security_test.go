package admin_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
)

// secured returns a server with the token "secret".
func secured(t *testing.T) *admin.Server {
	t.Helper()
	return admin.New(quiet, admin.Options{Addr: ":8080", Token: "secret", Prefix: "/timers", Monitor: watched(t), Timers: seeded(t), Broker: channel(t)})
}

// post sends a form to the login page, or another one.
func post(s http.Handler, path string, form url.Values, change func(*http.Request)) *http.Response {
	r := httptest.NewRequest("POST", "http://timers.example"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func TestErrorsBelowV1AreProblems(t *testing.T) {
	t.Parallel()
	local := admin.New(quiet, admin.Options{Addr: "127.0.0.1:8080", Monitor: watched(t), Timers: seeded(t)})
	for i, test := range []struct {
		s      http.Handler
		method string
		path   string
		header []string
		code   int
	}{
		{secured(t), "GET", "/timers/v1/stats", nil, 401},
		{secured(t), "GET", "/timers/metrics", nil, 401},
		{local, "GET", "/v1/stats", []string{"Host", "evil.example"}, 421},
		{local, "GET", "/openapi.json", []string{"Host", "evil.example"}, 421},
		{local, "DELETE", "/v1/tenants/acme/timers/order-1", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{local, "DELETE", "/v1/tenants/acme/timers/order-1", []string{"Origin", "https://evil.example"}, 403},
		{local, "POST", "/login", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		r := httptest.NewRequest(test.method, "http://localhost:8080"+test.path, nil)
		for i := 0; i < len(test.header); i += 2 {
			if test.header[i] == "Host" {
				r.Host = test.header[i+1]
			}
			r.Header.Set(test.header[i], test.header[i+1])
		}
		w := httptest.NewRecorder()
		test.s.ServeHTTP(w, r)
		want := "text/plain; charset=utf-8"
		if strings.Contains(test.path, "/v1/") {
			want = "application/problem+json"
		}
		if w.Code != test.code || w.Header().Get("Content-Type") != want {
			t.Errorf("%d: %s: %d %v %s", i, test.path, w.Code, w.Header(), w.Body)
		}
	}
	s := secured(t)
	for range 10 {
		get(s, "/timers/v1/stats", "Authorization", "Bearer guess")
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/timers/v1/stats", nil)
	r.Header.Set("Authorization", "Bearer secret")
	if s.ServeHTTP(w, r); w.Code != 429 || w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Retry-After") != "5" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// TestBrowserLogsIn from a page that it is sent away from, and out again.
func TestBrowserLogsIn(t *testing.T) {
	t.Parallel()
	s := secured(t)
	r := httptest.NewRequest("GET", "http://timers.example/timers/docs?a=1", nil)
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	at := w.Header().Get("Location")
	if w.Code != 303 || at != "/timers/login?next=%2Ftimers%2Fdocs%3Fa%3D1" {
		t.Fatalf("%d %s", w.Code, at)
	}
	code, page := get(s, at)
	if code != 200 || !strings.Contains(page, `name="next" value="/timers/docs?a=1"`) || !strings.Contains(page, `action="/timers/login"`) || strings.Contains(page, "<script") {
		t.Fatalf("%d %s", code, page)
	}
	form := url.Values{"token": {"secret"}, "next": {"/timers/docs?a=1"}}
	answer := post(s, "/timers/login", form, nil)
	cookies := answer.Cookies()
	if answer.StatusCode != 303 || answer.Header.Get("Location") != "/timers/docs?a=1" || len(cookies) != 1 {
		t.Fatalf("%d %v", answer.StatusCode, answer.Header)
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/timers/" || c.MaxAge != 12*3600 || len(c.Value) < 20 || strings.Contains(c.String(), "secret") {
		t.Errorf("the cookie: %v", c)
	}
	if over := post(s, "/timers/login", form, func(r *http.Request) { r.TLS = new(tls.ConnectionState) }).Cookies(); !over[0].Secure {
		t.Errorf("over TLS: %v", over)
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
	answer = post(s, "/timers/logout", nil, func(r *http.Request) { r.Header.Set("Cookie", session) })
	if answer.StatusCode != 303 || answer.Header.Get("Location") != "/timers/login" || answer.Cookies()[0].MaxAge != -1 {
		t.Errorf("%d %v", answer.StatusCode, answer.Header)
	}
	if code, _ := get(s, "/timers/v1/stats", "Cookie", session); code != 401 {
		t.Errorf("after the logout: %d", code)
	}
}

// TestLoginGoesNowhereElse: what next names is a path of this server.
func TestLoginGoesNowhereElse(t *testing.T) {
	t.Parallel()
	s := secured(t)
	for _, next := range []string{"https://evil.example", "//evil.example", `/\evil.example`, "javascript:alert(1)", "/a\r\nSet-Cookie: a=b", "", "\x00", "/\t/evil.example"} {
		answer := post(s, "/timers/login", url.Values{"token": {"secret"}, "next": {next}}, nil)
		if at := answer.Header.Get("Location"); answer.StatusCode != 303 || at != "/timers/" || len(answer.Header.Values("Set-Cookie")) != 1 {
			t.Errorf("%q: %d %q", next, answer.StatusCode, at)
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
		use := func(tenants map[timer.TenantID][]string) {
			if err := s.UseTenantTokens(tenants); err != nil {
				t.Fatal(err)
			}
		}
		use(map[timer.TenantID][]string{"acme": {"of acme"}})
		login := func(token string) string {
			answer := post(s, "/login", url.Values{"token": {token}}, nil)
			if answer.StatusCode != 303 {
				t.Fatalf("%s: %d", token, answer.StatusCode)
			}
			return "timer_session=" + answer.Cookies()[0].Value
		}
		code := func(session string) int {
			code, _ := get(s, "/none", "Cookie", session)
			return code
		}
		full, tenant := login("secret"), login("of acme")
		if code(full) != 404 || code(tenant) != 404 || code("timer_session=secret") != 401 || code("timer_session=") != 401 {
			t.Errorf("%d %d", code(full), code(tenant))
		}
		use(nil)
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
		first := login("secret")
		for range 1000 {
			time.Sleep(time.Millisecond)
			login("secret")
		}
		if code(first) != 401 {
			t.Error("any number of sessions is kept")
		}
		for range 10 {
			if answer := post(s, "/login", url.Values{"token": {"guess"}}, nil); answer.StatusCode != 401 || len(answer.Cookies()) != 0 {
				t.Error(answer.StatusCode)
			}
		}
		if answer := post(s, "/login", url.Values{"token": {"secret"}}, nil); answer.StatusCode != 429 {
			t.Errorf("after ten guesses: %d", answer.StatusCode)
		}
	})
}

// TestRightTokenForgetsNoGuess: else the token of a tenant would let it guess others
// without end.
func TestRightTokenForgetsNoGuess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := admin.New(quiet, admin.Options{Token: "secret", Monitor: admin.NewMonitor(nil, quiet)})
		if err := s.UseTenantTokens(map[timer.TenantID][]string{"acme": {"of acme"}}); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			guess, _ := get(s, "/none", "Authorization", "Bearer guess")
			get(s, "/none", "Authorization", "Bearer of acme")
			if (guess == 429) != (i >= 10) {
				t.Errorf("guess %d: %d", i, guess)
			}
		}
	})
}

// TestTokenInUsePassesWhileOthersGuess from its address, as behind a proxy, but not one
// that is so short that it could be guessed.
func TestTokenInUsePassesWhileOthersGuess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const long, other, short = "0123456789abcdef", "fedcba9876543210", "secret"
		s := admin.New(quiet, admin.Options{Token: short, Monitor: admin.NewMonitor(nil, quiet)})
		use := func(tokens ...string) {
			if err := s.UseTenantTokens(map[timer.TenantID][]string{"acme": tokens}); err != nil {
				t.Fatal(err)
			}
		}
		use(long, other)
		code := func(token string) int {
			code, _ := get(s, "/none", "Authorization", "Bearer "+token)
			return code
		}
		guess := func() {
			for range 10 {
				code("guess")
			}
		}
		if code(long) != 404 || code(short) != 404 {
			t.Fatal("before")
		}
		guess()
		for token, want := range map[string]int{long: 404, other: 429, short: 429, "guess": 429} {
			if got := code(token); got != want {
				t.Errorf("%s: %d, want %d", token, got, want)
			}
		}
		time.Sleep(time.Hour - time.Second)
		guess()
		if got := code(long); got != 404 {
			t.Errorf("within an hour: %d", got)
		}
		use(other)
		if got := code(long); got != 429 {
			t.Errorf("when it is right no more: %d", got)
		}
		use(long)
		time.Sleep(time.Hour)
		guess()
		if got := code(long); got != 429 {
			t.Errorf("after an hour: %d", got)
		}
	})
}

// TestTenantTokensAreOfOneTenant refuses what is not.
func TestTenantTokensAreOfOneTenant(t *testing.T) {
	t.Parallel()
	s := secured(t)
	if err := s.UseTenantTokens(map[timer.TenantID][]string{"acme": {"a"}}); err != nil {
		t.Fatal(err)
	}
	for _, tenants := range []map[timer.TenantID][]string{{"acme": {"b"}, "globex": {"b"}}, {"acme": {""}}, {"acme": {"secret"}}} {
		if err := s.UseTenantTokens(tenants); err == nil {
			t.Errorf("%v was taken", tenants)
		}
	}
	for path, want := range map[string]int{
		"/timers/v1/tenants/acme/timers/order-1":   200,
		"/timers/v1/tenants/globex/timers/order-1": 404,
		"/timers/v1/tenants":                       403,
		"/timers/v1/timers?correlationId=req-7":    403,
		"/timers/openapi.json":                     200,
	} {
		if code, text := get(s, path, "Authorization", "Bearer a"); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, text, want)
		}
	}
	for path, want := range map[string]int{"acme": 202, "globex": 404} {
		if code, text := do(s, "DELETE", "/timers/v1/tenants/"+path+"/timers/order-9", "Authorization", "Bearer a"); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, text, want)
		}
	}
}

// TestPprofIsOffUntilItIsOn.
func TestPprofIsOffUntilItIsOn(t *testing.T) {
	t.Parallel()
	for on, want := range map[bool]int{false: 404, true: 200} {
		s := admin.New(quiet, admin.Options{Monitor: watched(t), Pprof: on, Prefix: "/timers"})
		for _, path := range []string{"/timers/debug/pprof/", "/timers/debug/pprof/heap", "/timers/debug/pprof/cmdline"} {
			if code, _ := get(s, path); code != want {
				t.Errorf("%v: %s: %d", on, path, code)
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
			"POST": "/v1/tenants/" + text + "/dead-letters/" + text + ":replay",
		} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(method, "http://localhost:8080"+target, strings.NewReader(`{"in":"1h"}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header["Traceparent"] = []string{"00-a\r\nX: 1"}
			s.ServeHTTP(w, r)
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

// listening returns the address of a server that runs.
func listening(t *testing.T, opt admin.Options) (address string) {
	t.Helper()
	opt.Addr = "127.0.0.1:0"
	s := admin.New(quiet, opt)
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	during(t, s.Run)
	return strings.TrimPrefix(s.Address(), "http://")
}

// TestLargeRequestsAreRefused: 10 MB of a body, and of headers, over TCP.
func TestLargeRequestsAreRefused(t *testing.T) {
	t.Parallel()
	address := listening(t, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: channel(t)})
	large := strings.Repeat("x", 10<<20)
	r, err := http.NewRequestWithContext(t.Context(), "PUT", "http://"+address+"/v1/tenants/acme/timers/new", strings.NewReader(`{"in":"1h","data":"`+large+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err == nil {
		_ = answer.Body.Close()
		if answer.StatusCode != 413 {
			t.Errorf("a body: %d", answer.StatusCode)
		}
	} // else the server has closed the connection while the body came

	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = fmt.Fprintf(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", large) }()
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil && got.StatusCode != 431 {
		t.Errorf("headers: %d", got.StatusCode)
	}
}

// TestSlowHeadersEnd: who sends a byte a time is cut off after some seconds, and others
// are answered meanwhile.
func TestSlowHeadersEnd(t *testing.T) {
	t.Parallel()
	address := listening(t, admin.Options{Monitor: watched(t)})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			if _, err := conn.Write([]byte("G")); err != nil {
				return
			}
		}
	}()
	answer, err := http.Get("http://" + address + "/livez")
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("another client: %v %v", answer, err)
	}
	_ = answer.Body.Close()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	for buffer := make([]byte, 1024); ; {
		_, err := conn.Read(buffer)
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // of a connection
			t.Fatal("the connection is still open")
		}
		if err != nil {
			return
		}
	}
}
