package rabbitmq

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// A network is a connection to a server, as the client library uses it.
//
// A write never waits for the server. The library holds its locks during a write, so a
// server that accepts nothing would block acks, publishers and the end of Run. Publishers
// wait in [network.writable]. If the server does not accept data in time, or is silent,
// the connection ends. The library alone would wait many minutes for the operating
// system.
//
// Data is read through a [filter].
type network struct {
	conn net.Conn
	in   *filter

	mu      sync.Mutex
	pending []byte        // bytes that the library has written, and the network has not sent
	more    chan struct{} // signals that bytes are pending, or that the network is closing
	failed  error         // why nothing can be written any more; nil if it can
	ended   chan struct{} // closed when send has ended
}

const (
	writeTimeout = 10 * time.Second // longest wait for the server to accept writePart bytes
	writePart    = 64 << 10
	maxPending   = 256 << 10 // pending bytes at which publishers wait
)

func newNetwork(conn net.Conn, f *flow) *network {
	n := &network{conn: conn, more: make(chan struct{}, 1), ended: make(chan struct{})}
	n.in = newFilter(deadlineReader{conn}, f)
	go n.send()
	return n
}

// Read reads data that has passed the filter.
func (n *network) Read(p []byte) (int, error) { return n.in.Read(p) }

// A deadlineReader reads from the network with a deadline. The library's own deadline would count
// the time in which a [flow] reads nothing.
type deadlineReader struct{ net.Conn }

func (r deadlineReader) Read(p []byte) (int, error) {
	if err := r.SetReadDeadline(deadline(silence)); err != nil {
		return 0, err
	}
	return r.Conn.Read(p)
}

// deadline returns the time after a duration, for the operating system.
func deadline(after time.Duration) time.Time {
	return time.Now().Add(after) //nolint:forbidigo // sockets need a time, unlike timers
}

// Write queues p for sending, and does not wait for that.
func (n *network) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failed != nil {
		return 0, n.failed
	}
	n.pending = append(n.pending, p...)
	n.wake()
	return len(p), nil
}

// writable waits until less than maxPending bytes are pending, or ctx is done.
func (n *network) writable(ctx context.Context) error {
	return pause.Until(ctx, func() (bool, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.failed != nil || len(n.pending) < maxPending, ctx.Err() // the next write fails
	})
}

func (n *network) wake() {
	select {
	case n.more <- struct{}{}:
	default:
	}
}

// send writes to the network until it is closed and everything is sent, or until a write
// fails.
func (n *network) send() {
	defer close(n.ended)
	var out []byte
	for closing := false; !closing; {
		<-n.more
		n.mu.Lock()
		out, n.pending = n.pending, out[:0]
		closing = n.failed != nil
		n.mu.Unlock()
		for part := range slices.Chunk(out, writePart) { // a large message may take longer than the timeout
			_ = n.conn.SetWriteDeadline(deadline(writeTimeout)) // if it fails, the write fails, too
			if _, err := n.conn.Write(part); err != nil {
				n.mu.Lock()
				n.failed = errors.Join(errors.New("the server reads nothing"), err)
				n.mu.Unlock()
				_ = n.conn.Close() // the library gets an error from its next read
				return
			}
		}
	}
}

// Close sends the pending bytes for at most a second, and closes the connection.
func (n *network) Close() error {
	n.mu.Lock()
	n.failed = cmp.Or(n.failed, net.ErrClosed)
	n.wake()
	n.mu.Unlock()
	if n.in.flow != nil {
		n.in.flow.open()
	}
	defer time.AfterFunc(closeTimeout, func() { _ = n.conn.Close() }).Stop()
	<-n.ended
	return n.conn.Close()
}

var _ io.ReadWriteCloser = (*network)(nil)
