package rabbitmq

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestWritesMayTakeLongButNotBeStuck has a server read a large message part by part, each
// just in time. Then it reads no more.
func TestWritesMayTakeLongButNotBeStuck(t *testing.T) {
	t.Parallel()
	const parts = 10
	for name, reads := range map[string]int{"a slow server": parts, "a server that reads no more": parts - 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				defer server.Close()
				n := newNetwork(client, nil)
				if _, err := n.Write(bytes.Repeat([]byte("x"), parts*writePart)); err != nil {
					t.Fatal(err)
				}
				for range reads {
					time.Sleep(writeTimeout - time.Millisecond)
					if _, err := io.CopyN(io.Discard, server, writePart); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(writeTimeout + time.Millisecond)
				_, err := n.Write([]byte("x"))
				if failed := err != nil; failed != (reads < parts) {
					t.Errorf("the next write: %v", err)
				}
				server.Close() // so that Close has nothing to wait for
				n.Close()
			})
		})
	}
}
