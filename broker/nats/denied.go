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
)

// What the server does not permit it does not answer: it tells the connection,
// later, in a text. So that nobody waits in vain, whoever waits for an answer is
// told what was denied.

// deniedSubject matches the text about a message, or a subscription, with its
// subject.
var deniedSubject = regexp.MustCompile(`(Publish|Subscription) to "([^"]+)"`)

// A question is one that waits for an answer of the server.
type question struct {
	prefix string // of the subjects it is asked on
	cancel context.CancelCauseFunc
}

// deny tells all who wait for it that something was denied.
func (b *Broker) deny(err error) {
	b.mu.Lock()
	b.denied = err
	s, asked := b.session, slices.Collect(maps.Keys(b.asked))
	b.mu.Unlock()
	found := deniedSubject.FindStringSubmatch(err.Error())
	if found == nil {
		return
	}
	subject, deaf := found[2], found[1] == "Subscription"
	if deaf && !strings.HasPrefix(subject, b.opt.Inbox) {
		return
	}
	for _, q := range asked { // who may not hear answers waits for none
		if deaf || strings.HasPrefix(subject, q.prefix) {
			q.cancel(err)
		}
	}
	if s != nil {
		s.acks.deny(func(m *natsgo.Msg) bool { return deaf || m.Subject == subject }, err)
	}
	if s != nil && deaf {
		s.acks.close()
	}
}

// asking returns a context that ends with ctx, or when something with the prefix
// is denied, which is its cause then. Stop ends it too, and must be called.
func (b *Broker) asking(ctx context.Context, prefix string) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	q := &question{prefix, cancel}
	b.mu.Lock()
	b.asked[q] = struct{}{}
	b.mu.Unlock()
	return ctx, func() {
		b.mu.Lock()
		delete(b.asked, q)
		b.mu.Unlock()
		cancel(nil)
	}
}

// cause returns why a question failed.
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

// forgive forgets what was denied: permissions may have changed.
func (b *Broker) forgive() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.denied = nil
}

// deny gives up messages.
func (a *acks) deny(these func(*natsgo.Msg) bool, err error) {
	a.mu.Lock()
	calls := slices.Collect(maps.Values(a.calls))
	a.mu.Unlock()
	for _, s := range calls {
		s.giveUpOn(func(i int) bool { return these(s.messages[i]) }, err)
	}
}

// ails notes what is wrong with a subscription, nil if nothing is any more.
func (b *Broker) ails(s *subscription, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		delete(b.ill, s)
	} else {
		b.ill[s] = err
	}
}

// illness returns what is wrong with subscriptions.
func (b *Broker) illness() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []error
	for _, err := range b.ill {
		all = append(all, err)
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}
