package admin_test

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/admin"
)

// TestOtherHostsAreRefused without a token: a page whose name was bound to this address again
// must not read what it finds here. The setting names the host that a proxy passes on, and
// the site whose pages may write. Probes tell nothing, and are answered.
func TestOtherHostsAreRefused(t *testing.T) {
	t.Parallel()
	const origin = "https://timers.example"
	for set, hosts := range map[string]map[string][2]int{ // the codes of a read and of a write
		"": {
			"localhost:8080": {200, 403}, "LocalHost.": {200, 403}, "127.0.0.1:8080": {200, 403}, "[::1]:8080": {200, 403}, "10.1.2.3:8080": {200, 403},
			"timers.example": {421, 421}, "localhost.evil.example:8080": {421, 421},
		},
		origin: {"localhost:8080": {200, 202}, "timers.example": {200, 202}, "TIMERS.example.:443": {200, 202}, "evil.example": {421, 421}},
	} {
		s := admin.New(quiet, admin.Options{Addr: "127.0.0.1:8080", Origin: set, Monitor: watched(t), Timers: seeded(t), Broker: channel(t)})
		for host, want := range hosts {
			header := []string{"Host", host, "Origin", origin}
			for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
				if code, _ := do(s, method, "/readyz", header...); code != 200 {
					t.Errorf("%s: a probe with %s: %d", host, method, code)
				}
			}
			read, _ := get(s, "/v1/stats", header...)
			write, _ := do(s, "DELETE", "/v1/tenants/acme/timers/order-4", header...)
			if got := [2]int{read, write}; got != want {
				t.Errorf("%s with the origin %q: %v, want %v", host, set, got, want)
			}
		}
	}
}

// TestAddressesOfClients has one guess tokens, through proxies and directly.
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
