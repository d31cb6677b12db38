package rabbitmq

import (
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// A network is a connection to a server, as the client library uses it. It reads through a
// [filter]. If the server does not accept data in time, or is silent, the connection ends.
// The library alone would wait many minutes for the operating system, and block acks,
// publishers and the end of Run meanwhile, since it holds its locks during a write.
type network struct {
	conn net.Conn
	in   *filter
}

const (
	writeTimeout = 3 * time.Second // longest wait for the server to accept writePart bytes
	writePart    = 64 << 10
)

func newNetwork(conn net.Conn, f *flow) *network {
	return &network{conn: conn, in: newFilter(reader{conn}, f)}
}

// Read reads data that has passed the filter.
func (n *network) Read(p []byte) (int, error) { return n.in.Read(p) }

// A reader reads from the network with a deadline. The library's own deadline would count
// the time in which a [flow] reads nothing.
type reader struct{ net.Conn }

func (r reader) Read(p []byte) (int, error) {
	if err := r.SetReadDeadline(deadline(silence)); err != nil {
		return 0, err
	}
	return r.Conn.Read(p)
}

// deadline returns the time after a duration, for the operating system.
func deadline(after time.Duration) time.Time {
	return time.Now().Add(after) //nolint:forbidigo // sockets need a time, unlike timers
}

// Write sends p part by part, since a large message may take longer than writeTimeout.
func (n *network) Write(p []byte) (sent int, err error) {
	for part := range slices.Chunk(p, writePart) {
		if err := n.conn.SetWriteDeadline(deadline(writeTimeout)); err != nil {
			return sent, err
		}
		some, err := n.conn.Write(part)
		if sent += some; err != nil {
			return sent, fmt.Errorf("the server reads nothing: %w", err)
		}
	}
	return sent, nil
}

// Close closes the connection.
func (n *network) Close() error {
	if n.in.flow != nil {
		n.in.flow.open()
	}
	return n.conn.Close()
}

var _ io.ReadWriteCloser = (*network)(nil)
