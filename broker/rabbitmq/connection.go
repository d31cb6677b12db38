package rabbitmq

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/singleflight"

	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/pause"
)

const (
	dialTimeout = 5 * time.Second // longest wait for a connection that can be used
	heartbeat   = 5 * time.Second // longest time in which a side sends nothing
	silence     = 3 * heartbeat   // time without data after which the other side is given up
	channelMax  = 2047            // channels of a connection, RabbitMQ's default
	frameMax    = 128 << 10       // bytes of a frame, RabbitMQ's default
	product     = "timer-service" // for operators
	locale      = "en_US"         // language of the server's errors; it knows no other
	probeKey    = "amq.probe"     // routing key of probes; no queue is bound to it
)

// A serverConn is one connection with a server.
type serverConn struct {
	*amqp.Connection
	network *network
	server  string
	blocked atomic.Pointer[string] // why the server takes no messages; nil if it does
	maxBody atomic.Int64           // bytes of the largest body that the server takes; 0 if that is not known
	ending  context.Context        // see Broker.ending
	gone    chan struct{}          // closed when the connection has ended
	why     error                  // why the connection has ended; set before gone is closed
}

// keeper returns the keeper of one connection.
func (b *Broker) keeper(part string, verify, ping func(context.Context, *serverConn) error) *connection.Keeper[*serverConn] {
	return connection.New(connection.Options[*serverConn]{
		Server: "RabbitMQ",
		Dial:   func(ctx context.Context) (*serverConn, error) { return b.dial(ctx, part, nil) },
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
		Ping:  ping,
		Close: (*serverConn).end,
		Attrs: func(c *serverConn) []any { return []any{"part", part, "server", c.server, "version", c.version()} },
		Drain: b.term.End, // users of the connections still send their acks
	}, b.log)
}

// probe returns an [ErrBlocked] if the server takes no messages. A server tells that to a
// connection only after something was published on it, and reads nothing more from it
// then. So probe publishes a message in a transaction that is rolled back, and no queue
// gets it.
func (b *Broker) probe(ctx context.Context, c *serverConn) error {
	answer := b.begin("probe", func() error {
		return onChannel(c, func(ch *amqp.Channel) error {
			return errors.Join(ch.Tx(),
				ch.PublishWithContext(ctx, b.opt.Exchange, probeKey, false, false, amqp.Publishing{}),
				ch.PublishWithContext(ctx, b.commandsExchange(), probeKey, false, false, amqp.Publishing{}),
				ch.TxRollback())
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

// dial connects with the first server that accepts it.
func (b *Broker) dial(ctx context.Context, part string, f *flow) (*serverConn, error) {
	var errs error
	for _, s := range b.servers {
		c, err := b.dialServer(ctx, s, part, f)
		if err == nil {
			go b.watch(c)
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
	dial := new(net.Dialer).DialContext
	if secure != nil {
		dial = (&tls.Dialer{Config: secure}).DialContext
	}
	conn, err := dial(dialing, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	n := newNetwork(conn, f)
	defer context.AfterFunc(dialing, func() { _ = conn.Close() })()
	ac, err := amqp.Open(n, amqp.Config{
		SASL: b.opt.auth(s, secure), Vhost: s.vhost, Heartbeat: heartbeat, FrameSize: frameMax, ChannelMax: channelMax, Locale: locale,
		Properties: amqp.Table{"product": product, "connection_name": b.opt.Name + " " + part},
	})
	if err != nil {
		_ = n.Close() // the cause is the error of Open
		if errors.Is(err, amqp.ErrCredentials) {
			err = errors.New("the server refuses the user or the password")
		}
		return nil, cmp.Or(dialing.Err(), err)
	}
	return &serverConn{Connection: ac, network: n, server: s.address, ending: b.ending, gone: make(chan struct{})}, nil
}

// watch notes whether the server blocks the connection, until the connection ends.
func (b *Broker) watch(c *serverConn) {
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
			b.out.Recheck() // only a connection that publishes is blocked
		case err := <-closed:
			c.why = errors.New("the connection was closed")
			if err != nil {
				c.why = err
			}
			return
		}
	}
}

// end closes the connection. The server gets everything that was sent before, unless it
// takes longer than a second to accept it. End waits for its answer at most a second, and
// not at all if answers at the end of Run have taken too long.
func (c *serverConn) end() {
	waiting, stop := context.WithTimeout(c.ending, closeTimeout)
	defer stop()
	defer context.AfterFunc(waiting, func() { _ = c.network.Close() })()
	_ = c.Close() // an error does not matter any more
	<-c.gone
}

// version returns the server's version, such as 3.10.8.
func (c *serverConn) version() string {
	v, _ := c.Properties["version"].(string)
	return v
}

// ask calls f with a channel of its own, which f may break. It returns when ctx is done,
// though f may still wait for the server. Until the server answers, other calls with the
// same key wait for that answer, too, since each request without an answer takes a
// channel.
func (b *Broker) ask(ctx context.Context, key string, conn *serverConn, f func(*amqp.Channel) error) error {
	return await(ctx, b.begin(key, func() error { return onChannel(conn, f) }))
}

// begin starts f, unless a call with its key has not ended.
func (b *Broker) begin(key string, f func() error) <-chan singleflight.Result {
	return b.asked.DoChan(key, func() (any, error) {
		if !b.term.Add(&b.requests) {
			return nil, connection.ErrClosed
		}
		defer b.requests.Done()
		return nil, f()
	})
}

// await returns the error of a call that was begun, or the error of ctx if that ends
// first.
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

// onChannel calls f with a channel of its own, since an error breaks a channel.
func onChannel(conn *serverConn, f func(*amqp.Channel) error) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return cmp.Or(f(ch), ch.Close()) // Close fails, too, if f has broken the channel
}

// openChannel calls use with a new channel. If that fails, or ctx ends first, the channel
// is closed.
func (b *Broker) openChannel(ctx context.Context, conn *serverConn, use func(*amqp.Channel) error) error {
	if !b.term.Add(&b.requests) {
		return connection.ErrClosed
	}
	opened := make(chan error) // unbuffered: either the caller has the channel, or it is closed here
	go func() {
		defer b.requests.Done()
		channel, err := conn.Channel()
		if err == nil {
			err = use(channel)
		}
		select {
		case opened <- err:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil && channel != nil {
			_ = channel.Close() // an error does not matter any more
		}
	}()
	select {
	case err := <-opened:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt calls f and waits at most timeout for it. After the end of Run it waits only
// until the broker's ending. The caller must be counted in the term.
func (b *Broker) attempt(timeout time.Duration, f func()) {
	ctx, cancel := context.WithTimeout(b.ending, timeout)
	defer cancel()
	done := make(chan struct{})
	b.requests.Go(func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}
