// Package proxy stands between clients and a server and harms their
// connections, for tests: what they send is late, gets lost without a word, or
// ends in a reset. It takes connections over TCP, or within the process, where
// it works in a bubble of testing/synctest too.
package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// A Direction is a way that bytes go.
type Direction int

// Directions.
const (
	ToServer Direction = iota
	ToClient
)

// dialTimeout is the longest wait for the server to take a connection.
const dialTimeout = 5 * time.Second

// A Proxy passes on connections to a server. All methods are safe for
// concurrent use.
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

// A state is the harm that is done.
type state struct {
	refuse bool             // no new connections
	drop   [2]bool          // by direction: nothing arrives
	delay  [2]time.Duration // by direction: what is sent arrives later
}

// New returns a proxy for a server that dial connects with. It passes
// everything on, and starts nothing: call [Proxy.Listen] or
// [Proxy.InProcessConn].
func New(dial func() (net.Conn, error)) *Proxy {
	return &Proxy{dial: dial, links: make(map[*link]struct{})}
}

// TCP returns what dials an address, for [New].
func TCP(address string) func() (net.Conn, error) {
	return func() (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(context.Background(), "tcp", address)
	}
}

// Listen takes connections on a free port of this machine until
// [Proxy.Close], and returns its address. It is called once.
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
			if err := p.take(conn); err != nil {
				reset(conn)
			}
		}
	})
	return l.Addr().String(), nil
}

// InProcessConn returns the client's end of a new connection that does not go
// through the network. It is what nats.InProcessServer asks for.
func (p *Proxy) InProcessConn() (net.Conn, error) {
	client, ours := net.Pipe()
	if err := p.take(ours); err != nil {
		return nil, err
	}
	return client, nil
}

// Delay has what is sent in a direction from now on arrive so much later. It
// does not make the connection narrower: more can be sent meanwhile.
func (p *Proxy) Delay(d Direction, by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.delay[d] = by
}

// Drop has nothing arrive any more in the directions, not even the end of a
// connection. Connections stay open, and new ones can be made. One that has
// lost something is never whole again: it stays as it is after [Proxy.Pass].
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

// Reset ends all connections there are, as a peer does that knows nothing of
// them.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.end()
	}
}

// Refuse has new connections refused. Those there are stay.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.refuse = true
}

// Pass undoes all harm, but for what was lost: see [Proxy.Drop].
func (p *Proxy) Pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = state{}
}

// Accepted returns how many connections were taken so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Close ends all connections and waits until nothing is at work.
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

// now returns the harm that is done now.
func (p *Proxy) now() state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// errRefused says that no connections are taken.
var errRefused = errors.New("connection refused by the proxy")

// take takes a connection of a client.
func (p *Proxy) take(client net.Conn) error {
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
