package admin

import (
	"crypto/tls"
	"net"
	"net/http"
	"testing"
)

// TestConnectionsWithTLSAreCounted by the connection over TCP below it.
func TestConnectionsWithTLSAreCounted(t *testing.T) {
	t.Parallel()
	c := &connections{most: 1, full: func() {}, open: make(map[net.Conn]*connection)}
	conn, other := net.Pipe()
	defer other.Close()
	c.admit(conn)
	over := tls.Server(conn, new(tls.Config))
	if c.observe(over, http.StateActive); !c.open[conn].busy {
		t.Error("a request is not noticed")
	}
	c.loggedIn(c.context(t.Context(), over))
	if !c.open[conn].login {
		t.Error("a token is not noticed")
	}
	if c.observe(over, http.StateClosed); len(c.open) > 0 {
		t.Error("the end is not noticed")
	}
}
