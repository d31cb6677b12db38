package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/singleflight"

	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/pause"
)

const (
	dialTimeout = 5 * time.Second // longest wait for a server to accept a connection, and for each of its answers then
	heartbeat   = 5 * time.Second // how often each side sends something at least
	silence     = 3 * heartbeat   // after which the other side is given up
	channelMax  = 2047            // channels of a connection, as RabbitMQ has it
	frameMax    = 128 << 10       // bytes, as RabbitMQ has it
	product     = "timer-service" // for operators
	locale      = "en_US"         // of the server's errors; it knows no other
	probeKey    = "amq.probe"     // routing key of a message that no queue gets; no topic has it
)

// A serverConn is one connection with a server.
type serverConn struct {
	*amqp.Connection
	network *network
	server  string
	blocked atomic.Pointer[string] // why the server takes no messages; nil if it does
	over    <-chan struct{}        // closed when Run ends
	gone    chan struct{}          // closed when it has ended
	why     error                  // set before gone is closed
}

// keeper returns a keeper of one connection.
func (b *Broker) keeper(part string, verify func(context.Context, *serverConn) error) *connection.Keeper[*serverConn] {
	var k *connection.Keeper[*serverConn]
	k = connection.New(connection.Options[*serverConn]{
		Server: "RabbitMQ",
		Dial: func(ctx context.Context) (*serverConn, error) {
			return b.dial(ctx, b.servers, part, nil, func() { k.Recheck() })
		},
		Watch: func(ctx context.Context, c *serverConn) error {
			select {
			case <-c.gone:
				b.outages.Add(1)
				return c.why
			case <-ctx.Done():
				return nil
			}
		},
		Verify: verify, Interval: time.Hour, // a refused declaration is an error in the server's log
		Ping:  b.ping(part),
		Close: (*serverConn).end,
		Attrs: func(c *serverConn) []any { return []any{"part", part, "server", c.server, "version", c.version()} },
		Drain: b.term.End, // what uses the connections still sends its acks
	}, b.log)
	return k
}

// ping returns how a connection is asked whether it works, nil if it is not.
func (b *Broker) ping(part string) func(context.Context, *serverConn) error {
	switch {
	case part == "main":
		return func(ctx context.Context, c *serverConn) error { return b.ask(ctx, "ping", c, b.exchange().exists) }
	case b.opt.Client: // which may have no right to publish
		return nil
	}
	return b.probe
}

// probe returns an [ErrBlocked] if the server takes no messages. The server says that to
// a connection when something was published on it, and reads nothing more from it. So
// this publishes a message in a transaction that is rolled back: no queue gets it.
func (b *Broker) probe(ctx context.Context, c *serverConn) error {
	answer := b.begin("probe", func() error {
		return onChannel(c, func(ch *amqp.Channel) error {
			return errors.Join(ch.Tx(), ch.PublishWithContext(ctx, b.opt.Exchange, probeKey, false, false, amqp.Publishing{}), ch.TxRollback())
		})
	})
	return pause.Until(ctx, func() (bool, error) {
		select {
		case r := <-answer:
			return true, r.Err
		default:
			return false, c.takesMessages()
		}
	})
}

// takesMessages returns an [ErrBlocked] while the server takes no messages.
func (c *serverConn) takesMessages() error {
	if reason := c.blocked.Load(); reason != nil {
		return fmt.Errorf("%w: %s", ErrBlocked, *reason)
	}
	return nil
}

// dial connects with the first server that accepts it. It calls changed whenever
// the server starts or stops to take messages.
func (b *Broker) dial(ctx context.Context, servers []server, part string, f *flow, changed func()) (*serverConn, error) {
	var errs error
	for _, s := range servers {
		c, err := b.dialServer(ctx, s, part, f)
		if err == nil {
			go c.watch(changed)
			return c, nil
		}
		errs = errors.Join(errs, fmt.Errorf("%s: %w", s, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errs
}

func (b *Broker) dialServer(ctx context.Context, s server, part string, f *flow) (*serverConn, error) {
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	secure, err := b.opt.tls(s)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(dialing, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	if secure != nil {
		client := tls.Client(conn, secure)
		if err := client.HandshakeContext(dialing); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		conn = client
	}
	n := newNetwork(conn, dialTimeout, f)
	aborted := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer aborted()
	ac, err := amqp.Open(n, amqp.Config{
		SASL: b.opt.auth(s, secure), Vhost: s.vhost, Heartbeat: heartbeat, FrameSize: frameMax, ChannelMax: channelMax, Locale: locale,
		Properties: amqp.Table{"product": product, "connection_name": b.opt.Name + " " + part},
	})
	if err != nil {
		_ = n.Close() // why it failed is known
		if errors.Is(err, amqp.ErrCredentials) {
			err = errors.New("the server refuses the user or the password")
		}
		return nil, err
	}
	n.timeout.Store(int64(silence))
	return &serverConn{Connection: ac, network: n, server: s.address, over: b.term.Over(), gone: make(chan struct{})}, nil
}

// watch notes what the server says of the connection until it ends.
func (c *serverConn) watch(changed func()) {
	defer close(c.gone)
	blocked, closed := c.NotifyBlocked(make(chan amqp.Blocking, 1)), c.NotifyClose(make(chan *amqp.Error, 1))
	for {
		select {
		case now, ok := <-blocked:
			switch {
			case !ok:
				blocked = nil // the connection is ending
				continue
			case now.Active:
				c.blocked.Store(&now.Reason)
			default:
				c.blocked.Store(nil)
			}
			changed()
		case err := <-closed:
			c.why = errors.New("the connection was closed")
			if err != nil {
				c.why = err
			}
			return
		}
	}
}

// end closes the connection. What was sent before reaches the server, unless it
// does not accept it within a second. Its answer is waited for no longer than a second,
// of which little is left when Run ends.
func (c *serverConn) end() {
	ended := make(chan struct{})
	var watching sync.WaitGroup
	defer watching.Wait()
	defer close(ended)
	watching.Go(func() {
		if !inTime(ended, closeTimeout, c.over) {
			_ = c.network.Close()
		}
	})
	_ = c.Close() // it is of no use any more
	<-c.gone
}

// abort closes a connection on which the server does not answer. What was sent before
// reaches the server, unless it does not accept it within a second.
func (c *serverConn) abort() {
	_ = c.network.Close() // it is of no use any more
	<-c.gone
}

// version is the server's, such as 3.10.8.
func (c *serverConn) version() string {
	v, _ := c.Properties["version"].(string)
	return v
}

// alive reports whether the connection has not ended.
func (c *serverConn) alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return !c.IsClosed()
	}
}

// ask has f ask the server on a channel of its own, which f may break. It returns when
// ctx is done, though f may still wait for an answer. Until that comes others with the
// key wait for it too: each question that the server does not answer takes a channel.
func (b *Broker) ask(ctx context.Context, key string, conn *serverConn, f func(*amqp.Channel) error) error {
	return await(ctx, b.begin(key, func() error { return onChannel(conn, f) }))
}

// begin begins f, unless one with its key has not ended.
func (b *Broker) begin(key string, f func() error) <-chan singleflight.Result {
	return b.asked.DoChan(key, func() (any, error) {
		if !b.term.Add(&b.calls) {
			return nil, connection.ErrClosed
		}
		defer b.calls.Done()
		return nil, f()
	})
}

// await returns the error of what was begun, or that of ctx if that ends first.
func await(ctx context.Context, answer <-chan singleflight.Result) error {
	select {
	case r := <-answer:
		return r.Err
	case <-ctx.Done():
	}
	select {
	case r := <-answer:
		return r.Err
	default:
		return ctx.Err()
	}
}

// onChannel has f use a channel of its own, which an error breaks.
func onChannel(conn *serverConn, f func(*amqp.Channel) error) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := f(ch); err != nil {
		_ = ch.Close() // it may be broken, and is of no use any more
		return err
	}
	return ch.Close()
}

// within returns the result of f, or the error of ctx if that ends first: the
// client library waits for an answer as long as the connection lives.
func (b *Broker) within(ctx context.Context, f func() error) error {
	if !b.term.Add(&b.calls) {
		return connection.ErrClosed
	}
	answer := make(chan error, 1)
	go func() {
		defer b.calls.Done()
		answer <- f()
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openChannel calls use with a new channel. If that fails, or ctx ends first, the
// channel is closed.
func (b *Broker) openChannel(ctx context.Context, conn *serverConn, use func(*amqp.Channel) error) error {
	var channel *amqp.Channel
	var done atomic.Bool // set by the first of the two that end here; the second closes the channel if it has to be
	err := b.within(ctx, func() (err error) {
		if channel, err = conn.Channel(); err != nil {
			return err
		}
		err = use(channel)
		if done.Swap(true) {
			_ = channel.Close()
		}
		return err
	})
	if err != nil && done.Swap(true) {
		b.attempt(closeTimeout, func() { _ = channel.Close() })
	}
	return err
}

// attempt calls f, and waits for it no longer than a time, of which little is left when
// Run ends. It reports whether f has returned. The caller must be counted in the term.
func (b *Broker) attempt(timeout time.Duration, f func()) bool {
	done := make(chan struct{})
	b.calls.Go(func() {
		defer close(done)
		f()
	})
	return inTime(done, timeout, b.term.Over())
}

// inTime waits until something is done, no longer than a time, and no longer than
// lastAnswer from the end of Run on. It reports whether it is done.
func inTime(done <-chan struct{}, timeout time.Duration, over <-chan struct{}) bool {
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		select {
		case <-done:
			return true
		case <-late.C:
			return false
		case <-over:
			over = nil
			late.Reset(min(timeout, lastAnswer))
		}
	}
}
