package poison_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// A sender publishes messages as they are.
type sender interface {
	fire(s *shot) error
	sync() error // returns when the broker has read what was fired
}

// A wire is a connection with NATS that sends what it is given: client libraries are too
// well-behaved. What the broker answers to a message does not matter: whether it keeps
// the message shows in the stream.
type wire struct {
	inbox string
	in    *bufio.Reader
	out   *bufio.Writer
}

// dial connects with NATS as a user. The name distinguishes connections.
func (w *world) dial(user, name string) sender {
	w.Helper()
	conn, err := net.Dial("tcp", w.address)
	harness.Must(w, err)
	w.Cleanup(func() { _ = conn.Close() })
	c := &wire{inbox: "_INBOX." + name, in: bufio.NewReaderSize(conn, 1<<20), out: bufio.NewWriterSize(conn, 1<<20)}
	fmt.Fprintf(c.out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"protocol\":1,\"user\":%q,\"pass\":%q}\r\n", user, user)
	harness.Must(w, c.sync())
	return c
}

func (c *wire) fire(s *shot) error {
	if s.header == "" {
		fmt.Fprintf(c.out, "PUB %s %s %d\r\n", s.subject, c.inbox, len(s.Body))
	} else {
		fmt.Fprintf(c.out, "HPUB %s %s %d %d\r\n%s", s.subject, c.inbox, len(s.header), len(s.header)+len(s.Body), s.header)
	}
	_, _ = c.out.Write(s.Body)
	_, err := c.out.WriteString("\r\n")
	return err
}

// sync waits for the answer to a ping. The broker may complain of what was fired.
func (c *wire) sync() error {
	if _, err := c.out.WriteString("PING\r\n"); err != nil {
		return err
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the broker closed the connection: %w", err)
		}
		if strings.HasPrefix(line, "PONG") {
			return nil
		}
	}
}

// A channel is a connection with RabbitMQ.
type channel struct {
	*amqp.Channel
	last *amqp.DeferredConfirmation
}

func (c *channel) fire(s *shot) (err error) {
	c.last, err = c.PublishWithDeferredConfirm("svc.direct.commands", commandsTopic, true, false, amqp.Publishing{Headers: s.table, Body: s.Body})
	s.Acked = true // as all are when the last one is
	return err
}

func (c *channel) sync() error {
	if c.last != nil {
		c.last.Wait()
	}
	return nil
}
