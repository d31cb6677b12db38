package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker/connection"
)

// newKeeper returns the keeper of the client that publishes. The client reconnects by
// itself. The keeper knows whether it is connected, and makes topics.
func newKeeper(b *Broker) *connection.Keeper[*kgo.Client] {
	begun := false
	var prepared time.Time // zero if the last check has failed
	return connection.New(connection.Options[*kgo.Client]{
		Server:   "Kafka",
		Interval: checkInterval,
		Dial: func(context.Context) (*kgo.Client, error) {
			client, err := b.dial(b.producing()...)
			if err != nil {
				return nil, connection.Fatal(err)
			}
			return client, nil
		},
		Verify: func(ctx context.Context, client *kgo.Client) (err error) {
			answered := !prepared.IsZero()
			if now := clock(); now.Sub(prepared) < verifyInterval {
				err = answers(ctx, client)
			} else {
				err, prepared = b.prepare(ctx, client), now
			}
			if err != nil {
				prepared = time.Time{}
			}
			begun = begun || err == nil
			switch {
			case errors.Is(err, errUnfit) && !begun:
				return connection.Fatal(err)
			case err != nil && !errors.Is(err, errMissing) && !errors.Is(err, errUnfit):
				if answered {
					b.outages.Add(1)
				}
				return fmt.Errorf("%w with Kafka: %w", connection.ErrNotConnected, b.explain(err))
			}
			return err
		},
		Ping:  answers,
		Close: (*kgo.Client).Close,
		Drain: b.term.End,
	}, b.log)
}

// Run connects and keeps connected until ctx is done. It returns an error only if
// the options can't work, or if a topic is refused.
func (b *Broker) Run(ctx context.Context) error {
	if err := b.validate(); err != nil {
		return err
	}
	return b.keeper.Run(ctx)
}

func (b *Broker) validate() error {
	if err := b.opt.Routing.Validate(); err != nil {
		return fmt.Errorf("routing: %w", err)
	}
	for _, t := range []struct{ name, topic string }{
		{"commands topic", b.opt.Routing.CommandsOf("t")},
		{"events topic", b.opt.Routing.EventsOf("t")},
		{"dead-letter topic", b.opt.Routing.DeadLettersOf("t")},
		{"receipts topic", cmp.Or(b.opt.Routing.ReceiptsOf("t"), DefaultReceipts)},
	} {
		if err := checkTopic(t.topic); err != nil {
			return fmt.Errorf("routing: %s: %w", t.name, err)
		}
	}
	return nil
}

// dial returns a client, connected or not. It fails only if no retry can help.
func (b *Broker) dial(more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := b.base()
	if err != nil {
		return nil, fmt.Errorf("connect with Kafka: %w", err)
	}
	client, err := kgo.NewClient(append(append(opts, more...), b.opt.Connect...)...)
	if err != nil {
		return nil, fmt.Errorf("connect with Kafka: %w", err)
	}
	return client, nil
}

// connected calls f with a client of its own, so that Run need not run.
func (b *Broker) connected(ctx context.Context, f func(context.Context, *kgo.Client) error) error {
	if err := b.validate(); err != nil {
		return err
	}
	client, err := b.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return f(ctx, client)
}

// explain adds a possible reason to an error: some servers close the connection of a user
// whom they refuse, without an answer.
func (b *Broker) explain(err error) error {
	if b.opt.SASL != NoSASL && errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the server closed the connection, perhaps it refuses the user, the password or the way to log in", err)
	}
	return err
}

// answers returns nil if any broker of the cluster answers. A broker that hangs is no outage,
// which would end all calls of Publish, so all are asked: the client library may choose the
// same one again. Nor is a server that pauses for some seconds.
func answers(ctx context.Context, client *kgo.Client) (err error) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	asked := []kmsg.Requestor{client} // it knows no broker at first
	for _, b := range client.DiscoveredBrokers() {
		asked = append(asked, b)
	}
	answers := make(chan error, len(asked))
	for _, who := range asked {
		asking.Go(func() {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{}
			_, err := req.RequestWith(ctx, who)
			answers <- err
		})
	}
	for range asked {
		if err = <-answers; err == nil {
			break
		}
	}
	return err
}
