// Command timer-events is a client of a NATS server for the scripts. It prints a line for each
// event that comes, for as long as it runs, also after an outage of the server. With -publish
// it publishes the lines of stdin instead, each until the server has stored it.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/envelope"
)

func main() {
	url := flag.String("url", nats.DefaultURL, "NATS server")
	user, password := flag.String("user", "", "its user"), flag.String("password", "", "and password")
	ca := flag.String("ca", "", "file with the authority of its certificate")
	inbox := flag.String("inbox", "_INBOX", "prefix of inboxes")
	subject := flag.String("subject", "svc.*.serviceCall", "what to subscribe to")
	publish := flag.String("publish", "", "subject to publish lines to")
	flag.Parse()
	work := func(conn *nats.Conn) error { return listen(conn, *subject) }
	if *publish != "" {
		work = func(conn *nats.Conn) error { return send(conn, *publish) }
	}
	if err := with(*url, work, nats.UserInfo(*user, *password), nats.CustomInboxPrefix(*inbox), func(o *nats.Options) error {
		if *ca == "" {
			return nil
		}
		return nats.RootCAs(*ca)(o)
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func with(url string, work func(*nats.Conn) error, options ...nats.Option) error {
	conn, err := nats.Connect(url, append(options, nats.MaxReconnects(-1))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	return work(conn)
}

func send(conn *nats.Conn, subject string) error {
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		for tries := 1; ; tries++ {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_, err := js.Publish(ctx, subject, lines.Bytes())
			cancel()
			if err == nil {
				break
			}
			if tries == 10 {
				return err
			}
		}
	}
	return lines.Err()
}

func listen(conn *nats.Conn, subject string) error {
	events := make(chan *nats.Msg, 8192)
	if _, err := conn.ChanSubscribe(subject, events); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "listening to", subject)
	for m := range events {
		fmt.Printf("%s %s.%s\n", m.Header.Get(envelope.HeaderType), m.Header.Get(envelope.HeaderTenantID), m.Header.Get(envelope.HeaderServiceCallID))
	}
	return nil
}
