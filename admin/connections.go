package admin

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	defaultConnections = 1000
	probeConnections   = 8 // further connections, for probes alone
)

// connections bounds how many connections over TCP there are, since each takes a handle of the
// process, and databases and brokers need handles, too. At the bound a new connection ends the
// oldest one that has shown no token: first one that is idle, then one at work, and then an idle
// one that has. While all others are at work it may only probe.
type connections struct {
	most int
	full func() // called at the bound

	mu   sync.Mutex
	open map[net.Conn]*connection
}

// A connection is one over TCP.
type connection struct {
	conn   net.Conn
	probes bool // it may only probe

	// The mutex of connections guards these.
	login bool      // a request has shown a token, or needed none
	busy  bool      // it has a request
	since time.Time // when it began to be busy, or idle
}

// A boundedListener accepts connections within a bound.
type boundedListener struct {
	net.Listener
	*connections
}

// bounded returns a listener whose connections are bounded.
func (s *Server) bounded(l net.Listener) net.Listener { return boundedListener{l, s.connections} }

// Accept returns the next connection.
func (l boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.admit(conn) {
			return conn, nil
		}
		_ = conn.Close() // without an answer, since it has sent nothing
	}
}

// admit adds a connection, and reports whether there is room for it.
func (c *connections) admit(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := &connection{conn: conn, since: time.Now()}
	if len(c.open) >= c.most {
		c.full()
		switch victim := c.victim(); {
		case victim != nil:
			delete(c.open, victim.conn)
			_ = victim.conn.Close()
			is.probes = victim.probes
		case len(c.open) >= c.most+probeConnections:
			return false
		default:
			is.probes = true
		}
	}
	c.open[conn] = is
	return true
}

// victim returns the connection that ends first, or nil if all have shown a token and are at work.
func (c *connections) victim() (first *connection) {
	rank := func(is *connection) int {
		switch {
		case !is.login && !is.busy:
			return 0
		case !is.login:
			return 1
		case !is.busy:
			return 2
		}
		return 3
	}
	for _, is := range c.open {
		if rank(is) < 3 && (first == nil || rank(is) < rank(first) || rank(is) == rank(first) && is.since.Before(first.since)) {
			first = is
		}
	}
	return first
}

// observe notes the state of a connection. A connection of the unix socket is not bounded.
func (c *connections) observe(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := c.open[belowTLS(conn)]
	if is == nil {
		return
	}
	is.busy, is.since = state == http.StateActive, time.Now()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(c.open, is.conn)
	}
}

// belowTLS returns the connection over TCP.
func belowTLS(conn net.Conn) net.Conn {
	if over, ok := conn.(*tls.Conn); ok {
		return over.NetConn()
	}
	return conn
}

// connectionKey is the key of the [connection] in the context of a request over TCP.
type connectionKey struct{}

func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if is := c.open[belowTLS(conn)]; is != nil {
		return context.WithValue(ctx, connectionKey{}, is)
	}
	return ctx
}

// loggedIn notes that a request has shown a token, or needed none.
func (c *connections) loggedIn(ctx context.Context) {
	if is, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		is.login = true
	}
}

// onlyProbes refuses other requests than probes on connections that may only probe.
func onlyProbes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if is, ok := r.Context().Value(connectionKey{}).(*connection); ok && is.probes {
			w.Header().Set("Connection", "close")
			if !isProbe(r) {
				w.Header().Set("Retry-After", "1")
				refuse(w, r, http.StatusServiceUnavailable, "too many connections: try again, or raise http_connections")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isProbe reports whether a request asks for the health of the service.
func isProbe(r *http.Request) bool { return r.URL.Path == "/livez" || r.URL.Path == "/readyz" }
