package proxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	chunkBytes = 32 << 10
	chunks     = 1 << 13 // the most chunks under way; then the sender waits
)

// A link is a connection with a client, and the connection with the server to which it is
// forwarded.
type link struct {
	proxy *Proxy
	dead  [2]atomic.Bool // something that was sent in a direction was dropped, so nothing arrives any more

	readers atomic.Int32 // readers that have ended
	once    sync.Once
	over    chan struct{} // closed when the link is to end

	mu    sync.Mutex
	ended bool
	conns [2]net.Conn // by the direction in which they are written to; the server's is nil until it is made
}

// A chunk is a part of a stream of bytes. Nil bytes are the end of the stream.
type chunk struct {
	bytes []byte
	due   time.Time // when it arrives
}

// run forwards what both sides send, until both or the link have ended.
func (l *link) run() {
	defer l.end()
	if l.dead[ToServer].Load() { // the server does not learn of this connection
		_, _ = io.Copy(io.Discard, l.conns[ToClient]) // until the client ends
		return
	}
	server, err := l.proxy.dial()
	if err != nil || !l.connect(server) {
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { l.pump(ToServer) })
	pumps.Go(func() { l.pump(ToClient) })
	pumps.Wait()
}

// connect notes the server's connection. It returns false, and closes it, if
// the link has ended meanwhile.
func (l *link) connect(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = server.Close() // nothing was sent
		return false
	}
	l.conns[ToServer] = server
	return true
}

// end resets both connections.
func (l *link) end() {
	l.once.Do(func() { close(l.over) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, c := range l.conns {
		if c != nil {
			reset(c)
		}
	}
}

// reset closes a connection. The bytes under way on a TCP connection are dropped.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // fails only if it is closed
	}
	_ = c.Close() // an error does not matter any more
}

// pump forwards the bytes of a direction. It also reads the bytes that it drops, or the sender
// would notice.
func (l *link) pump(d Direction) {
	way := make(chan chunk, chunks)
	var writer sync.WaitGroup
	writer.Go(func() { l.arrive(d, way) })
	defer writer.Wait()
	defer close(way)

	for buffer := make([]byte, chunkBytes); ; {
		n, err := l.conns[1-d].Read(buffer)
		late := l.proxy.now().delay[d]
		if n > 0 && !l.dead[d].Load() {
			way <- chunk{append([]byte(nil), buffer[:n]...), time.Now().Add(late)}
		}
		if err != nil {
			if l.readers.Add(1) == 2 && (l.dead[0].Load() || l.dead[1].Load()) {
				l.end() // both sides are gone, and neither learns of the end of the other
			}
			if !l.dead[d].Load() {
				way <- chunk{nil, time.Now().Add(late)}
			}
			return
		}
	}
}

// arrive writes each chunk when it is due.
func (l *link) arrive(d Direction, way <-chan chunk) {
	for c := range way {
		if !l.await(c.due) || l.dead[d].Load() {
			continue
		}
		to := l.conns[d]
		if c.bytes == nil {
			closeWrite(to)
			continue
		}
		if _, err := to.Write(c.bytes); err != nil && !l.dead[1-d].Load() {
			l.end() // the receiver is gone, and the sender may learn of it
		}
	}
	if l.dead[d].Load() {
		<-l.over // meanwhile the receiver waits for more
	}
}

// await waits until a time. It returns false if the link ended before.
func (l *link) await(due time.Time) bool {
	if !time.Now().Before(due) {
		return true
	}
	t := time.NewTimer(time.Until(due))
	defer t.Stop()
	select {
	case <-l.over:
		return false
	case <-t.C:
		return true
	}
}

// closeWrite tells the receiver that nothing more comes.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // fails only if it is closed
		return
	}
	_ = c.Close()
}
