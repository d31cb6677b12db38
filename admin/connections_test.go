package admin_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
)

// A pipeListener has connections in this process.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error   { close(l.closed); return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// A caller is a client with a connection of its own, which it keeps open.
type caller struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (l pipeListener) dial(t *testing.T) caller {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close() })
	l.conns <- theirs
	return caller{t, ours, bufio.NewReader(ours)}
}

// get returns the status of an answer, 0 if there is no connection any more.
func (c caller) get(path, token string) int {
	c.send(path, token)
	return c.status()
}

func (c caller) send(path, token string) {
	authorization := ""
	if token != "" {
		authorization = "Authorization: Bearer " + token + "\r\n"
	}
	_, _ = fmt.Fprintf(c.conn, "GET %s HTTP/1.1\r\nHost: timers\r\n%s\r\n", path, authorization) // closed: there is no status
}

func (c caller) status() int {
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode
}

// isClosed reports whether the server has closed the connection.
func (c caller) isClosed() bool {
	_ = c.conn.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := c.in.Peek(1)
	_ = c.conn.SetReadDeadline(time.Time{})
	return errors.Is(err, io.EOF)
}

const aToken = "a token that nobody guesses"

// bounded serves HTTP with at most four connections in addition to probes.
func bounded(t *testing.T, opt admin.Options) pipeListener {
	opt.Connections, opt.Token = 4, aToken
	opt.Monitor = admin.NewMonitor(nil, quiet)
	s := admin.New(quiet, opt)
	l := pipeListener{make(chan net.Conn), make(chan struct{})}
	s.ListenOn(l)
	during(t, s.Run)
	return l
}

func open(callers []caller) (n int) {
	for _, c := range callers {
		if !c.isClosed() {
			n++
		}
	}
	return n
}

// TestConnectionsWithoutALoginMakeRoom for others: idle ones, ones that send a byte a
// time, and ones that send nothing.
func TestConnectionsWithoutALoginMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bounded(t, admin.Options{Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
		scraper := l.dial(t)
		if code := scraper.get("/metrics", aToken); code != 200 {
			t.Fatalf("status %d", code)
		}
		var idle []caller
		for i := range 300 {
			c := l.dial(t)
			switch i % 3 {
			case 0:
				if code := c.get("/livez", ""); code != 200 {
					t.Fatalf("client %d: %d", i, code)
				}
			case 1:
				_, _ = c.conn.Write([]byte("G"))
			}
			synctest.Wait()
			idle = append(idle, c)
		}
		if n := open(idle); n != 3 {
			t.Errorf("%d of 300 connections are open, want 3 and the one with a login", n)
		}
		if code := l.dial(t).get("/livez", ""); code != 200 {
			t.Errorf("a probe: %d", code)
		}
		if code := scraper.get("/metrics", aToken); code != 200 {
			t.Errorf("the connection with a login: %d", code)
		}
	})
}

// TestProbesHaveConnectionsOfTheirOwn while all others are at work.
func TestProbesHaveConnectionsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := bounded(t, admin.Options{Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })})
		var busy []caller
		for range 4 {
			busy = append(busy, l.dial(t))
			busy[len(busy)-1].send("/metrics", aToken)
			synctest.Wait()
		}
		for range 50 {
			if code := l.dial(t).get("/livez", ""); code != 200 {
				t.Fatalf("a probe: %d", code)
			}
		}
		if code := l.dial(t).get("/metrics", aToken); code != 503 {
			t.Errorf("one more request: %d", code)
		}
		close(release)
		for i, c := range busy {
			if code := c.status(); code != 200 {
				t.Errorf("request %d that was at work: %d", i, code)
			}
		}
	})
}

// TestLargeHeadersAreRefused while they come.
func TestLargeHeadersAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bounded(t, admin.Options{}).dial(t)
		go c.send("/livez", strings.Repeat("x", 64<<10))
		if code := c.status(); code != 431 {
			t.Errorf("status %d", code)
		}
	})
}

// TestSlowHeadersEnd: who sends a byte a time is cut off after some seconds, and others are
// answered meanwhile.
func TestSlowHeadersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bounded(t, admin.Options{})
		slow, other, began := l.dial(t), l.dial(t), time.Now()
		go io.Copy(io.Discard, slow.conn)
		for err := error(nil); err == nil && time.Since(began) < time.Minute; time.Sleep(time.Second) {
			_, err = slow.conn.Write([]byte("G"))
			if code := other.get("/livez", ""); code != 200 {
				t.Fatalf("another client: %d", code)
			}
		}
		if took := time.Since(began); took < 4*time.Second || took > 10*time.Second {
			t.Errorf("it ended after %v", took)
		}
	})
}

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
