package handlers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	bulkLimit  = 1000                 // commands a transaction takes at most
	crowd      = 32                   // commands of a transaction after which it is worth to wait for more
	lingerTime = 3 * time.Millisecond // how long
)

// A bulk is a subscriber between that of the broker and the router. Commands
// that arrive while one transaction is being committed go into the next one
// together, and each is acked after the commit, without passing through the
// router: that costs as much again as storing them (ADR 0012).
//
// The router gets every message that needs its care: what is invalid or no
// command, what is over a quota or may be, what the store returned an error for,
// and everything while the store is down. It then reads and applies the message itself, so that both ways have
// one meaning.
type bulk struct {
	message.Subscriber
	h *Handlers
}

// Subscribe returns the messages for the router.
func (b bulk) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	q := newQueue()
	in, err := subscribeOffers(ctx, b.Subscriber, topic, func(o envelope.Offer) bool {
		command := b.read(o)
		if command != nil {
			q.add(command)
		}
		return command != nil
	})
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	go func() {
		defer q.close()
		for msg := range in {
			out <- msg
		}
	}()
	go func() {
		defer close(out) // the router waits for it
		for batch := q.next(nil); len(batch) > 0; batch = q.next(batch) {
			for some := range slices.Chunk(batch, bulkLimit) {
				b.commit(some)
			}
			if len(batch) >= crowd && len(batch) < bulkLimit {
				b.linger()
			}
		}
	}()
	return out, nil
}

// linger waits a moment for more to come. While commands come in crowds a
// transaction of few makes the disk sync for few, and with it all who share the
// disk, such as the broker that they come from.
func (b bulk) linger() {
	moment := time.NewTimer(lingerTime)
	defer moment.Stop()
	select {
	case <-moment.C:
	case <-b.h.stopping.Done():
	}
}

// A command is one that was taken.
type command struct {
	delivery
	offer envelope.Offer
	grant quota.Grant // of a ScheduleTimer
}

// read returns the command of an offer, or nil if that is the router's business.
func (b bulk) read(o envelope.Offer) (c *command) {
	defer func() {
		if recover() != nil {
			c = nil // it will panic again there, where that is seen to
		}
	}()
	if b.h.Held() {
		return nil
	}
	c = &command{delivery: delivery{incoming: o}, offer: o}
	if b.h.read(&c.delivery) != nil || c.result.Outcome == OutcomeIgnored {
		return nil
	}
	if c.schedule != nil && b.h.opt.Quotas != nil {
		var ok bool
		if c.grant, ok = b.h.opt.Quotas.Take(c.schedule.TenantID); !ok {
			return nil
		}
	}
	return c
}

// A queue holds the commands that wait for a transaction. The broker bounds how
// many are in flight.
type queue struct {
	mu      sync.Mutex
	waiting []*command
	closed  bool
	more    sync.Cond
}

func newQueue() *queue {
	q := new(queue)
	q.more.L = &q.mu
	return q
}

func (q *queue) add(c *command) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, c)
	q.more.Signal()
}

// close says that there will be no more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Signal()
}

// next returns all that wait, as soon as there are some, and nothing when there
// will be no more. It takes over what it returned last.
func (q *queue) next(last []*command) []*command {
	clear(last)
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 && !q.closed {
		q.more.Wait()
	}
	batch := q.waiting
	q.waiting = last[:0]
	return batch
}

// commit applies a batch, a transaction for each type of command, and acks what
// is durable. If the store returns an error the router tries one by one.
func (b bulk) commit(batch []*command) {
	var schedules, cancels []*command
	for _, c := range batch {
		if c.cancel != nil {
			cancels = append(cancels, c)
		} else {
			schedules = append(schedules, c)
		}
	}
	for _, part := range []struct {
		batch []*command
		apply func([]*command) ([]timer.Outcome, error)
	}{{schedules, b.schedule}, {cancels, b.cancel}} {
		if len(part.batch) == 0 {
			continue
		}
		outcomes, err := part.apply(part.batch)
		if err != nil {
			b.failed(len(part.batch), err)
			for _, c := range part.batch {
				c.grant.Failed()
				c.offer.Pass()
			}
			continue
		}
		b.h.hold.up()
		for i, c := range part.batch {
			b.h.accepted(&c.delivery, c.grant, outcomes[i])
			c.result.Outcome = outcomes[i].String()
			b.h.opt.Handled(c.result)
			failpoint.Here("handled")
			c.offer.Ack()
		}
	}
}

// failed notes that a transaction failed. Unless one of its commands is invalid
// the store may be down: the next one to try goes alone.
func (b bulk) failed(commands int, err error) {
	if isInvalid(err) {
		return
	}
	b.h.log.WarnContext(b.h.working, "transaction failed, its commands are tried one by one", "commands", commands, "error", err)
	b.h.hold.trip()
}

func (b bulk) schedule(batch []*command) (outcomes []timer.Outcome, err error) {
	defer recovered(&err)
	commands := make([]timer.ScheduleTimer, len(batch))
	for i, c := range batch {
		commands[i] = *c.schedule
	}
	return b.h.schedule(b.h.working, commands...)
}

func (b bulk) cancel(batch []*command) (outcomes []timer.Outcome, err error) {
	defer recovered(&err)
	commands := make([]timer.CancelTimer, len(batch))
	for i, c := range batch {
		commands[i] = *c.cancel
	}
	return b.h.cancel(b.h.working, commands...)
}

// recovered makes an error of a panic.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}
