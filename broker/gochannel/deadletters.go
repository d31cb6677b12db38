package gochannel

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// letters are the newest dead letters, oldest first.
type letters struct {
	most int // that are kept

	mu        sync.Mutex
	all       []buried
	forgotten int64
}

// A buried message is a dead letter of a tenant.
type buried struct {
	tenant timer.TenantID
	letter *message.Message // never handed out
}

func (l *letters) add(t timer.TenantID, letter *message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, buried{t, letter})
	if n := len(l.all) - l.most; n > 0 {
		l.all = slices.Delete(l.all, 0, n)
		l.forgotten += int64(n)
	}
}

// of returns the letters of a tenant, or all.
func (l *letters) of(t timer.TenantID) (found []*message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.all {
		if t == "" || t == b.tenant {
			found = append(found, b.letter)
		}
	}
	return found
}

// remove removes a letter. It may be gone already.
func (l *letters) remove(letter *message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(b buried) bool { return b.letter == letter })
}

// Forgotten returns how many dead letters made room for newer ones, and can't be
// visited any more.
func (b *Broker) Forgotten() int64 {
	b.letters.mu.Lock()
	defer b.letters.mu.Unlock()
	return b.letters.forgotten
}

// VisitDeadLetters calls visit with each dead letter of a tenant, or of all, that
// is kept when it begins, oldest first. See [broker.DeadLetters] for the contract.
func (b *Broker) VisitDeadLetters(
	ctx context.Context, tenant timer.TenantID, visit func(letter *message.Message) (remove bool, err error),
) error {
	if err := broker.ValidateVisit(tenant); err != nil {
		return err
	}
	if err := b.Ready(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, kept := range b.letters.of(tenant) {
		letter := kept.Copy()
		letter.Payload = bytes.Clone(kept.Payload) // visit may write into it
		remove, err := visit(letter)
		if err != nil {
			return err
		}
		if remove {
			b.letters.remove(kept)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
