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
				go func() {
					for range reads {
						time.Sleep(writeTimeout - time.Millisecond)
						_, _ = io.CopyN(io.Discard, server, writePart)
					}
				}()
				n := newNetwork(client, nil)
				defer n.Close()
				sent, err := n.Write(bytes.Repeat([]byte("x"), parts*writePart))
				if sent != reads*writePart || (err != nil) != (reads < parts) {
					t.Errorf("%d parts were sent: %v", sent/writePart, err)
				}
			})
		})
	}
}
