package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/event-service-agent/timer-service/broker"
)

// The server does not answer a request that it does not permit. It notifies the
// connection later, in a text. All open requests are notified of each denial, so that
// none waits for an answer that does not come.

// These are how the server's text names a denied subject.
const (
	deniedPublish   = `Publish to "`
	deniedSubscribe = `Subscription to "`
)

// denied wraps the error about a missing permission in [broker.ErrDenied].
func denied(err error) error { return fmt.Errorf("%w: %w", broker.ErrDenied, err) }

// acksDenied is the key of the failure that acks are denied.
const acksDenied = "acks"

// deny notifies the requests that wait for an answer of the denial, and returns the error to
// log. Acks are denied one by one, each with a subject of its own: their messages are
// redelivered again and again, until the next connection.
func (b *Broker) deny(err error) error {
	if strings.Contains(err.Error(), deniedPublish+"$JS.ACK.") {
		err = fmt.Errorf("%w: acks, on $JS.ACK.>", broker.ErrDenied)
		b.failures.Set(acksDenied, err)
		return err
	}
	inbox := strings.Contains(err.Error(), deniedSubscribe+b.opt.Inbox) // then no answer is received, whatever the subject
	b.mu.Lock()
	for r := range b.requests {
		if inbox || strings.Contains(err.Error(), r.text) {
			r.cancel(err)
		}
	}
	b.mu.Unlock()
	if s, notConnected := b.keeper.Current(); inbox && notConnected == nil {
		s.js.CleanupPublisher() // it subscribes again with the next publish
	}
	return err
}

// A request waits for an answer.
type request struct {
	text   string // the part of an error text by which a denial of the request is known
	cancel context.CancelCauseFunc
}

// requesting returns a context that ends with ctx, or when the subject of a request is
// denied. In the second case the denial is the cause of the context. Stop ends the context
// too, and must be called.
func (b *Broker) requesting(ctx context.Context, subject string) (_ context.Context, stop func()) {
	return b.undenied(ctx, deniedPublish+subject+`"`)
}

// undenied returns a context that ends with ctx, or when a denial contains a text.
func (b *Broker) undenied(ctx context.Context, text string) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r := &request{text, cancel}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests[r] = true
	return ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.requests, r)
		cancel(nil)
	}
}

// cause returns why a request failed: a denied permission, or err.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); err != nil && errors.Is(why, broker.ErrDenied) {
		return why
	}
	return err
}
