package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
)

// The server does not answer a request that it does not permit. It notifies the
// connection later, in a text. All open requests are notified of each denial, so that
// none waits for an answer that does not come.

// deniedSubject matches the server's text about a denied message or subscription, and
// captures its subject.
var deniedSubject = regexp.MustCompile(`(Publish|Subscription) to "([^"]+)"`)

// denied wraps the error about a missing permission in [broker.ErrDenied].
func denied(err error) error { return fmt.Errorf("%w: %w", broker.ErrDenied, err) }

// toSubscribe returns how the server's text names a subscription that it denies.
func toSubscribe(subject string) string { return `Subscription to "` + subject + `"` }

// deny notifies all requests that something was denied. It returns false if the denial is
// known already: the acks of a consumer are denied one by one.
func (b *Broker) deny(err error) (news bool) {
	b.mu.Lock()
	b.denied = err
	requests := slices.Collect(maps.Keys(b.requests))
	b.mu.Unlock()
	found := deniedSubject.FindStringSubmatch(err.Error())
	if found == nil {
		return true
	}
	subject, subscribed := found[2], found[1] == "Subscription"
	inbox := subscribed && strings.HasPrefix(subject, b.opt.Inbox)
	switch {
	case inbox: // no answer is received, whatever the subject
	case subscribed:
		subject = found[0]
	case strings.HasPrefix(subject, "$JS.ACK."):
		return b.denyAcks(subject)
	}
	for _, r := range requests {
		if inbox || r.subject == subject {
			r.cancel(err)
		}
	}
	if s, err := b.keeper.Current(); err == nil && inbox {
		s.js.CleanupPublisher() // it subscribes again with the next publish
	}
	return true
}

// denyAcks notes that the acks of a consumer are denied. Its messages are redelivered
// again and again, until the next connection looks up the consumer.
func (b *Broker) denyAcks(subject string) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.open {
		if strings.Contains(subject, "."+b.opt.Stream+"."+s.durable+".") {
			news = b.failures.Set(s, fmt.Errorf("%w: acks of consumer %s, on $JS.ACK.>", broker.ErrDenied, s.durable)) || news
		}
	}
	return news
}

// A request waits for an answer.
type request struct {
	subject string
	cancel  context.CancelCauseFunc
}

// requesting returns a context that ends with ctx, or when the subject of a request is
// denied. In the second case the denial is the cause of the context. Stop ends the context
// too, and must be called.
func (b *Broker) requesting(ctx context.Context, subject string) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r := &request{subject, cancel}
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
	if why := context.Cause(ctx); err != nil && errors.Is(why, natsgo.ErrPermissionViolation) {
		return why
	}
	return err
}

// suspect adds the last denial to an error that may come from it.
func (b *Broker) suspect(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.denied == nil || errors.Is(err, b.denied) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, b.denied)
}

// clearDenied forgets the last denial, since permissions may have changed.
func (b *Broker) clearDenied() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.denied = nil
}
