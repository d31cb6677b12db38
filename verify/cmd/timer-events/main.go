// Command timer-events is a consumer of events for the scripts: it prints a line for each
// that comes, for as long as it runs, also after an outage of the NATS server.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/envelope"
)

func main() {
	url := flag.String("url", nats.DefaultURL, "NATS server")
	user, password := flag.String("user", "", "its user"), flag.String("password", "", "and password")
	ca := flag.String("ca", "", "file with the authority of its certificate")
	inbox := flag.String("inbox", "_INBOX", "prefix of inboxes")
	subject := flag.String("subject", "svc.*.serviceCall", "what to subscribe to")
	flag.Parse()
	if err := listen(*subject, *url, nats.UserInfo(*user, *password), nats.CustomInboxPrefix(*inbox), func(o *nats.Options) error {
		if *ca == "" {
			return nil
		}
		return nats.RootCAs(*ca)(o)
	}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func listen(subject, url string, options ...nats.Option) error {
	conn, err := nats.Connect(url, append(options, nats.MaxReconnects(-1))...)
	if err != nil {
		return err
	}
	defer conn.Close()
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
