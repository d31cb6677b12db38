package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	dialTimeout = 5 * time.Second // longest wait for a server to take a connection, and for each of its answers then
	heartbeat   = 5 * time.Second // how often each side says that it lives, if nothing else
	silence     = 3 * heartbeat   // after which the other side is dead
	channelMax  = 2047            // channels of a connection, as RabbitMQ has it
	frameMax    = 128 << 10       // bytes, as RabbitMQ has it
	product     = "timer-service" // for operators
	locale      = "en_US"         // of the server's errors; it knows no other
)

// A connection is one connection with a server.
type connection struct {
	*amqp.Connection
	wire   *wire
	server string
	gone   chan struct{} // closed when it has ended
	why    error         // set before gone is closed
}

// dial connects with the first server that takes us.
func (b *Broker) dial(ctx context.Context, servers []server, part string, v *valve) (*connection, error) {
	var errs error
	for _, s := range servers {
		c, err := b.dialOne(ctx, s, part, v)
		if err == nil {
			return c, nil
		}
		errs = errors.Join(errs, fmt.Errorf("%s: %w", s, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errs
}

func (b *Broker) dialOne(ctx context.Context, s server, part string, v *valve) (*connection, error) {
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(dialing, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	if s.tls {
		secure := tls.Client(conn, b.tls(s))
		if err := secure.HandshakeContext(dialing); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		conn = secure
	}
	w := newWire(conn, dialTimeout, v)
	aborted := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer aborted()
	ac, err := amqp.Open(w, amqp.Config{
		SASL: b.opt.auth(s), Vhost: s.vhost, Heartbeat: heartbeat, FrameSize: frameMax, ChannelMax: channelMax, Locale: locale,
		Properties: amqp.Table{"product": product, "connection_name": b.opt.Name + " " + part},
	})
	if err != nil {
		_ = w.Close() // why it failed is known
		if errors.Is(err, amqp.ErrCredentials) {
			err = errors.New("the server refuses the user or the password")
		}
		return nil, err
	}
	w.patience.Store(int64(silence))
	c := &connection{Connection: ac, wire: w, server: s.address, gone: make(chan struct{})}
	closed := ac.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		defer close(c.gone)
		c.why = errors.New("the connection was closed")
		if err := <-closed; err != nil {
			c.why = err
		}
	}()
	return c, nil
}

// tls returns the configuration for a server.
func (b *Broker) tls(s server) *tls.Config {
	c := b.opt.TLS.Clone()
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.ServerName == "" {
		c.ServerName = s.host
	}
	return c
}

// end closes the connection. What was sent before reaches the server, if it
// answers within a second.
func (c *connection) end() {
	late := time.AfterFunc(readyTimeout, func() { _ = c.wire.Close() })
	defer late.Stop()
	_ = c.Close() // it is over anyway
	<-c.gone
}

// version is the server's, such as 3.10.8.
func (c *connection) version() string {
	v, _ := c.Properties["version"].(string)
	return v
}

// alive reports whether the connection has not ended.
func (c *connection) alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return !c.IsClosed()
	}
}
