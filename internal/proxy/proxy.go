// Package proxy stands between clients and a server in tests, and harms their connections: it
// delays or drops the bytes that they send, or resets the connections. It accepts
// connections over TCP, or within the process, where it also works in a bubble of
// testing/synctest.
package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// A Direction is the direction in which bytes are sent.
type Direction int

// Directions.
const (
	ToServer Direction = iota
	ToClient
)

// dialTimeout is the longest wait for the server to accept a connection.
const dialTimeout = 5 * time.Second

// A Proxy forwards connections to a server. All methods are safe for concurrent use.
type Proxy struct {
	dial func() (net.Conn, error)

	mu       sync.Mutex
	state    state
	closed   bool
	accepted int
	links    map[*link]struct{}
	listener net.Listener // nil unless it listens
	work     sync.WaitGroup
}

// A state is the harm that a proxy does now.
type state struct {
	refuse bool             // it refuses new connections
	drop   [2]bool          // by direction: it drops all bytes
	delay  [2]time.Duration // by direction: how much later bytes arrive
}

// New returns a proxy for a server that dial connects with. It does no harm yet, and starts
// nothing: call [Proxy.Listen] or [Proxy.InProcessConn].
func New(dial func() (net.Conn, error)) *Proxy {
	return &Proxy{dial: dial, links: make(map[*link]struct{})}
}

// TCP returns a function for [New] that dials an address.
func TCP(address string) func() (net.Conn, error) {
	return func() (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(context.Background(), "tcp", address)
	}
}

// Listen accepts connections on a free port of this machine until [Proxy.Close], and
// returns its address. It is called once.
func (p *Proxy) Listen() (address string, err error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.listener != nil {
		return "", errors.Join(errors.New("the proxy listens already, or is closed"), l.Close())
	}
	p.listener = l
	p.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			if err := p.accept(conn); err != nil {
				reset(conn)
			}
		}
	})
	return l.Addr().String(), nil
}

// InProcessConn returns the client's end of a new connection that does not use the network.
// It is the method that nats.InProcessServer asks for.
func (p *Proxy) InProcessConn() (net.Conn, error) {
	client, ours := net.Pipe()
	if err := p.accept(ours); err != nil {
		return nil, err
	}
	return client, nil
}

// Delay delays the bytes that are sent in a direction from now on. It does not limit how much is sent
// meanwhile.
func (p *Proxy) Delay(d Direction, by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.delay[d] = by
}

// Drop drops everything that is sent in the directions, and the end of a connection, too.
// Connections stay open, and new ones can be made. A connection of which something was
// dropped never works again, also not after [Proxy.Pass].
func (p *Proxy) Drop(directions ...Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range directions {
		p.state.drop[d] = true
		for l := range p.links {
			l.dead[d].Store(true)
		}
	}
}

// Reset resets all open connections, as a peer does that does not know them.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.end()
	}
}

// Refuse refuses new connections. Open connections stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.refuse = true
}

// Pass ends all harm. Connections of which something was dropped do not recover: see
// [Proxy.Drop].
func (p *Proxy) Pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state{}
}

// Accepted returns how many connections were accepted so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Close ends all connections, and waits until the goroutines of the proxy have ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	var err error
	if p.listener != nil {
		err = p.listener.Close()
	}
	for l := range p.links {
		l.end()
	}
	p.mu.Unlock()
	p.work.Wait()
	return err
}

// now returns the harm that the proxy does now.
func (p *Proxy) now() state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// errRefused says that the proxy refuses new connections.
var errRefused = errors.New("connection refused by the proxy")

// accept accepts a connection of a client.
func (p *Proxy) accept(client net.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.state.refuse {
		return errRefused
	}
	p.accepted++
	l := &link{proxy: p, over: make(chan struct{}), conns: [2]net.Conn{ToClient: client}}
	for d, drop := range p.state.drop {
		l.dead[d].Store(drop)
	}
	p.links[l] = struct{}{}
	p.work.Go(func() {
		l.run()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
	return nil
}
