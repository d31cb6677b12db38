package postgres

import (
	"context"
	"database/sql"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
)

// TestStatementsArePrepared asks the server for the prepared statements of a connection,
// directly, through a server in between that names processes of its own, and as the URL says.
func TestStatementsArePrepared(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	for _, tt := range []struct {
		name, url string
		want      bool
	}{
		{"directly", direct, true},
		{"through a pooler", throughPooler(t, direct), false},
		{"directly, as the URL says", direct + "&default_query_exec_mode=cache_describe", false},
		{"through a pooler, as the URL says", throughPooler(t, direct) + "&default_query_exec_mode=cache_statement", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db, err := Connect(tt.url)
			must(t, err)
			defer db.Close()
			conn, err := db.Conn(t.Context())
			must(t, err)
			defer conn.Close()
			var one, prepared int
			must(t, conn.QueryRowContext(t.Context(), "SELECT 1").Scan(&one))
			must(t, conn.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT 1'").Scan(&prepared))
			if got := prepared > 0; got != tt.want {
				t.Errorf("the statement is prepared: %v, want %v", got, tt.want)
			}
			wantOpen(t, db, 1)
		})
	}
}

// wantOpen checks how many connections a handle has open.
func wantOpen(t *testing.T, db *sql.DB, want int) {
	t.Helper()
	if got := db.Stats().OpenConnections; got != want {
		t.Errorf("%d connections, want %d", got, want)
	}
}

// throughPooler returns the URL of a server in between that passes everything on, but names
// another process to each client, as poolers do.
func throughPooler(t *testing.T, to string) string {
	server, err := url.Parse(to)
	must(t, err)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	behind := server.Host
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go passOn(t.Context(), client, behind)
		}
	}()
	server.Host = listener.Addr().String()
	return server.String()
}

func passOn(ctx context.Context, client net.Conn, server string) {
	defer client.Close()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return
	}
	defer conn.Close()
	go func() {
		defer conn.Close()
		_, _ = io.Copy(conn, client)
	}()
	head := make([]byte, 5) // a type, and the length of the rest with itself
	for head[0] != 'Z' {    // ready for query
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		if head[0] == 'K' { // the process and its key
			body[0] ^= 0x7f
		}
		if _, err := client.Write(append(head, body...)); err != nil {
			return
		}
	}
	_, _ = io.Copy(client, conn)
}
