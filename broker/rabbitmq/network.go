package rabbitmq

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A network is a connection to a server, as the client library uses it.
//
// It gathers what is written: the library writes every message and every ack by
// itself. With it a call of a thousand messages takes half the time (7400
// messages/s against 3500, measured 2026-11 on a busy machine). A write that the
// server does not accept in time ends the connection, as does a server that is
// silent: the library would wait for the operating system, many minutes.
//
// What is read goes through a [filter].
type network struct {
	net.Conn
	timeout atomic.Int64 // longest silence of the server, in nanoseconds
	filter  *filter

	mu      sync.Mutex
	pending []byte        // written by the library, not yet to the network
	more    chan struct{} // holds one: something is pending, or it is closing
	fewer   chan struct{} // closed and made anew when pending was sent
	failed  error         // of a write to the network
	closing bool
	ended   chan struct{} // closed when nothing is written any more
}

const (
	writeTimeout = 10 * time.Second // longest wait for the server to accept something
	maxPending   = 256 << 10        // bytes; then publishers wait
)

func newNetwork(conn net.Conn, silence time.Duration, f *flow) *network {
	n := &network{Conn: conn, more: make(chan struct{}, 1), fewer: make(chan struct{}), ended: make(chan struct{})}
	n.timeout.Store(int64(silence))
	n.filter = newFilter(reader{n}, f)
	go n.send()
	return n
}

// Read reads what has passed the filter.
func (n *network) Read(p []byte) (int, error) { return n.filter.Read(p) }

// SetReadDeadline does nothing: timeout says how long a read may take.
func (n *network) SetReadDeadline(time.Time) error { return nil }

// SetDeadline does nothing, as SetReadDeadline.
func (n *network) SetDeadline(time.Time) error { return nil }

// A reader reads from the network.
type reader struct{ *network }

func (r reader) Read(p []byte) (int, error) {
	if err := r.Conn.SetReadDeadline(deadline(time.Duration(r.timeout.Load()))); err != nil {
		return 0, err
	}
	return r.Conn.Read(p)
}

// deadline returns the time after a duration, for the operating system.
func deadline(after time.Duration) time.Time {
	return time.Now().Add(after) //nolint:forbidigo // sockets need a time, and have nothing to do with timers
}

// Write has p sent. It never waits: see [network.writable].
func (n *network) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.failed != nil:
		return 0, n.failed
	case n.closing:
		return 0, net.ErrClosed
	}
	n.pending = append(n.pending, p...)
	n.wake()
	return len(p), nil
}

// writable waits until not too much is pending, or ctx is done.
func (n *network) writable(ctx context.Context) error {
	for {
		n.mu.Lock()
		full, fewer := len(n.pending) >= maxPending, n.fewer
		n.mu.Unlock()
		if !full {
			return ctx.Err()
		}
		select {
		case <-fewer:
		case <-n.ended:
			return nil // the next write says why
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (n *network) wake() {
	select {
	case n.more <- struct{}{}:
	default:
	}
}

// send writes to the network until it is closed and all is sent, or a write
// fails.
func (n *network) send() {
	defer close(n.ended)
	var out []byte
	for range n.more {
		n.mu.Lock()
		out, n.pending = n.pending, out[:0]
		closing := n.closing
		close(n.fewer)
		n.fewer = make(chan struct{})
		n.mu.Unlock()
		wait := writeTimeout
		if closing {
			wait = closeTimeout
		}
		if err := n.SetWriteDeadline(deadline(wait)); err != nil {
			n.fail(err)
			return
		}
		if _, err := n.Conn.Write(out); err != nil {
			n.fail(err)
			return
		}
		if closing {
			return
		}
	}
}

// fail ends the connection, which the library notices when it reads.
func (n *network) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = errors.Join(errors.New("the server does not accept what is sent"), err)
	n.pending = nil
	_ = n.Conn.Close() // it is dead anyway
}

// Close sends what was written, for at most a second, and closes the
// connection.
func (n *network) Close() error {
	n.mu.Lock()
	n.closing = true
	n.wake()
	n.mu.Unlock()
	n.filter.open()
	late := time.AfterFunc(closeTimeout, func() { _ = n.Conn.Close() }) // the writer is stuck
	<-n.ended
	late.Stop()
	return n.Conn.Close()
}
