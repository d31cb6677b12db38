package admin_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/admin"
)

// TestBehindAProxy asks a service without a token through a proxy that passes its own name
// on, as nginx does unless it is told otherwise, and through one that passes the client's.
func TestBehindAProxy(t *testing.T) {
	t.Parallel()
	const origin = "https://timers.example"
	for _, test := range []struct {
		name        string
		origin      string
		passes      string // the name of the host
		read, write int
	}{
		{"without the setting", "", "timers.example", 421, 421},
		{"the name of the client", origin, "timers.example", 200, 202},
		{"another case, a port and a final dot", origin, "TIMERS.example.:443", 200, 202},
		{"the name of the service", origin, "localhost:8080", 200, 202},
		{"the name of the service, without the setting", "", "LOCALHOST.:8080", 200, 403},
		{"another name", origin, "evil.example", 421, 421},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := admin.New(quiet, admin.Options{Addr: "127.0.0.1:8080", Origin: test.origin, Monitor: watched(t), Timers: seeded(t), Broker: channel(t)})
			behind := httptest.NewServer(s)
			defer behind.Close()
			to, err := url.Parse(behind.URL)
			if err != nil {
				t.Fatal(err)
			}
			proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				r.Out.Host = test.passes
			}})
			defer proxy.Close()
			ask := func(method, path string) int {
				r, err := http.NewRequestWithContext(t.Context(), method, proxy.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Origin", origin)
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
				return answer.StatusCode
			}
			for _, probe := range []string{"/livez", "/readyz"} {
				for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
					if code := ask(method, probe); code != 200 {
						t.Errorf("%s %s: %d", method, probe, code)
					}
				}
			}
			if code := ask("GET", "/v1/stats"); code != test.read {
				t.Errorf("a read: %d, want %d", code, test.read)
			}
			if code := ask("DELETE", "/v1/tenants/acme/timers/order-4"); code != test.write {
				t.Errorf("a write: %d, want %d", code, test.write)
			}
		})
	}
}

// TestAddressesOfClients has one guess tokens, through proxies and beside them.
func TestAddressesOfClients(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		trusted       string
		from          string
		guesser, good string // X-Forwarded-For
		locked        bool   // the other client, too
	}{
		{"without a proxy", "", "192.0.2.1", "198.51.100.1", "198.51.100.2", true},
		{"with a proxy", "192.0.2.0/24", "192.0.2.1", "198.51.100.1", "198.51.100.2", false},
		{"with two", "192.0.2.0/24", "192.0.2.1", "198.51.100.1, 192.0.2.2", "198.51.100.2, 192.0.2.2", false},
		{"with one that is not trusted", "192.0.2.9/32", "192.0.2.1", "198.51.100.1", "198.51.100.2", true},
		{"who pretends to be many", "192.0.2.0/24", "192.0.2.1", "203.0.113.1, 198.51.100.1", "203.0.113.2, 198.51.100.1", true},
		{"with nonsense", "192.0.2.0/24", "192.0.2.1", "nonsense", "more nonsense", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			opt := admin.Options{Addr: ":8080", Token: "secret", Monitor: watched(t), Timers: seeded(t)}
			if test.trusted != "" {
				opt.Proxies = []netip.Prefix{netip.MustParsePrefix(test.trusted)}
			}
			s := admin.New(quiet, opt)
			ask := func(token, forwarded string) int {
				r := httptest.NewRequest("GET", "/v1/stats", nil)
				r.RemoteAddr = test.from + ":1234"
				r.Header.Set("Authorization", "Bearer "+token)
				for hop := range strings.SplitSeq(forwarded, ", ") {
					r.Header.Add("X-Forwarded-For", hop)
				}
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				return w.Code
			}
			for range 20 {
				ask("guess", test.guesser)
			}
			want := 200
			if test.locked {
				want = 429
			}
			if code := ask("secret", test.good); code != want {
				t.Errorf("the other one: %d, want %d", code, want)
			}
		})
	}
}
