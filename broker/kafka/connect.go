package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// Run connects and keeps looking after the cluster until ctx is done. It returns
// an error only if the options can't work, or if a topic is refused.
func (b *Broker) Run(ctx context.Context) error {
	if !b.begun.CompareAndSwap(false, true) {
		return errors.New("the broker has been run already")
	}
	defer b.end()
	if err := b.validate(); err != nil {
		return err
	}
	client, err := b.dial(b.producing()...)
	if err != nil {
		return err
	}
	b.set(client, ErrNotConnected)
	err = b.keep(ctx, client)
	b.end()
	client.Close()
	return err
}

func (b *Broker) validate() error {
	if err := b.opt.Routing.Validate(); err != nil {
		return fmt.Errorf("routing: %w", err)
	}
	for _, t := range []struct{ name, topic string }{
		{"commands topic", b.opt.Routing.CommandsOf("t")},
		{"events topic", b.opt.Routing.EventsOf("t")},
		{"dead-letter topic", b.opt.Routing.DeadLettersOf("t")},
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

// end ends all subscriptions and waits for them.
func (b *Broker) end() {
	b.term.End()
	b.set(nil, ErrClosed)
}

// keep provisions the topics and looks whether the cluster answers, until ctx
// is done. It returns an error if what is there can't be used.
func (b *Broker) keep(ctx context.Context, client *kgo.Client) error {
	settled := false // the topics are as they should be
	retry := minBackoff
	for ctx.Err() == nil {
		var err error
		if settled {
			err = answers(ctx, client)
		} else {
			err = b.settle(ctx, client)
		}
		if errors.Is(err, errUnfit) {
			b.set(client, err)
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		wait := look
		switch {
		case err != nil:
			settled = false
			if !errors.Is(err, errMissing) {
				err = fmt.Errorf("%w: %w", ErrNotConnected, b.explain(err))
			}
			if b.set(client, err) {
				b.log.WarnContext(ctx, "Kafka is not usable, will retry", "error", err)
			}
			wait, retry = retry, min(2*retry, maxBackoff)
		default:
			settled, retry = true, minBackoff
			if b.set(client, nil) {
				b.log.InfoContext(ctx, "connected with Kafka")
			}
		}
		b.pause(ctx, wait)
	}
	return nil
}

// explain adds to an error what it may mean: some servers answer nothing if they
// refuse somebody.
func (b *Broker) explain(err error) error {
	if b.opt.SASL != NoSASL && errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the server hung up, perhaps it refuses the user, the password or the way to log in", err)
	}
	return err
}

// pause waits for d, a kick, or the end of ctx. A kick is heard once in a
// moment only.
func (b *Broker) pause(ctx context.Context, d time.Duration) {
	if !pause.For(ctx, min(d, minBackoff)) {
		return
	}
	t := time.NewTimer(max(d-minBackoff, 0))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-b.kick:
	case <-t.C:
	}
}

// answers reports whether the cluster is there. It asks twice: an outage ends all
// calls of Publish, and is not to be had for a server that stands still for a
// moment.
func answers(ctx context.Context, client *kgo.Client) error {
	err := ping(ctx, client)
	if err != nil && ctx.Err() == nil {
		err = ping(ctx, client)
	}
	return err
}

// ping reports whether a broker of the cluster answers.
func ping(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	_, err := req.RequestWith(ctx, client)
	return err
}

// state returns the client, which may be nil, and why it is not ready.
func (b *Broker) state() (*kgo.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.client, b.why
}

// set changes what everyone sees. It reports whether readiness changed.
func (b *Broker) set(client *kgo.Client, why error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	same := text(b.why) == text(why)
	if same && b.client == client {
		return false
	}
	b.client, b.why = client, why
	close(b.changed)
	b.changed = make(chan struct{})
	return !same
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// usable waits until the cluster is connected and provisioned. It returns nil if
// stop was closed, or Run is over, first.
func (b *Broker) usable(stop <-chan struct{}) *kgo.Client {
	for {
		b.mu.Lock()
		client, why, changed := b.client, b.why, b.changed
		b.mu.Unlock()
		if client != nil && why == nil {
			return client
		}
		select {
		case <-changed:
		case <-stop:
			return nil
		case <-b.term.Over():
			return nil
		}
	}
}

// current returns the client, if it is connected. Topics that are missing are
// others than those that are asked for, perhaps.
func (b *Broker) current() (*kgo.Client, error) {
	client, why := b.state()
	if client == nil || why != nil && !errors.Is(why, errMissing) {
		return nil, why
	}
	return client, nil
}

// check has the cluster looked at soon.
func (b *Broker) check() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}
