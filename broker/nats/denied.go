package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The server does not answer what it does not permit: it notifies the connection,
// later, in a text. So that no request waits in vain, each is notified of what was
// denied.

// deniedSubject matches the text about a message, or a subscription, with its
// subject.
var deniedSubject = regexp.MustCompile(`(Publish|Subscription) to "([^"]+)"`)

// deny notifies all requests that something was denied. It reports whether that is not
// known yet: the acks of a consumer are denied one by one.
func (b *Broker) deny(err error) (news bool) {
	b.mu.Lock()
	b.denied = err
	requests := slices.Collect(maps.Values(b.requests))
	b.mu.Unlock()
	found := deniedSubject.FindStringSubmatch(err.Error())
	if found == nil {
		return true
	}
	subject, inbox := found[2], found[1] == "Subscription"
	if strings.HasPrefix(subject, "$JS.ACK.") {
		return b.denyAcks(subject, err)
	}
	if inbox {
		if !strings.HasPrefix(subject, b.opt.Inbox) {
			return true
		}
		subject = "" // no answer is received, whatever the subject
	}
	for _, notify := range requests {
		notify(subject, err)
	}
	if s, err := b.keeper.Current(); err == nil && inbox {
		s.js.CleanupPublisher() // it subscribes again with the next publish
	}
	return true
}

// denyAcks notes that the acks of a consumer are denied, so that its messages come again
// and again, until the consumer is found anew with the next connection.
func (b *Broker) denyAcks(subject string, err error) (news bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.open {
		if strings.Contains(subject, "."+b.opt.Stream+"."+s.durable+".") {
			news = news || b.failing[s] == nil
			b.failing[s] = fmt.Errorf("acks of consumer %s: %w", s.durable, err)
		}
	}
	return news
}

// notifyDenied has denied called with what is denied from now on: a subject that
// was published to, or "" if answers can't be received. Stop ends that, and must
// be called.
func (b *Broker) notifyDenied(denied func(subject string, err error)) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastRequest++
	id := b.lastRequest
	b.requests[id] = denied
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.requests, id)
	}
}

// requesting returns a context that ends with ctx, or when the subject of a request is
// denied, which is its cause then. One that ends in a dot stands for all that begin
// with it. Stop ends it too, and must be called.
func (b *Broker) requesting(ctx context.Context, request string) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := b.notifyDenied(func(subject string, err error) {
		if subject == "" || subject == request || strings.HasSuffix(request, ".") && strings.HasPrefix(subject, request) {
			cancel(err)
		}
	})
	return ctx, func() {
		end()
		cancel(nil)
	}
}

// Denials are what was denied while messages wait for their acks.
type denials struct {
	mu      sync.Mutex
	denied  map[string]error // by subject; "" for all
	changed chan struct{}    // closed with the next denial
}

func (d *denials) add(subject string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.denied == nil {
		d.denied = make(map[string]error)
	}
	d.denied[subject] = err
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// of returns why messages to a subject are denied, nil if they are not. Changed is
// closed with the next denial.
func (d *denials) of(subject string) (changed <-chan struct{}, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	if all := d.denied[""]; all != nil {
		return d.changed, unavailable(all)
	}
	return d.changed, d.denied[subject]
}

// await waits for an ack, for the denial of its subject, or for the end of ctx.
func (d *denials) await(ctx context.Context, subject string, ack jetstream.PubAckFuture) (*jetstream.PubAck, error) {
	for {
		changed, err := d.of(subject)
		if err != nil {
			return nil, err
		}
		select {
		case a := <-ack.Ok():
			return a, nil
		case err := <-ack.Err():
			return nil, err
		case <-changed:
		case <-ctx.Done():
			select {
			case a := <-ack.Ok(): // it came before
				return a, nil
			default:
				return nil, ctx.Err()
			}
		}
	}
}

// cause returns why a request failed.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); err != nil && errors.Is(why, natsgo.ErrPermissionViolation) {
		return why
	}
	return err
}

// suspect adds what was denied last to an error that may come from it.
func (b *Broker) suspect(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.denied == nil || errors.Is(err, b.denied) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, b.denied)
}

// clearDenied forgets what was denied: permissions may have changed.
func (b *Broker) clearDenied() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.denied = nil
}

// setSubscriptionError notes what is wrong with a subscription, nil if nothing is.
func (b *Broker) setSubscriptionError(s *subscription, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		delete(b.failing, s)
	} else {
		b.failing[s] = err
	}
}

// subscriptionErrors returns what is wrong with subscriptions.
func (b *Broker) subscriptionErrors() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []error
	for _, err := range b.failing {
		all = append(all, err)
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}
