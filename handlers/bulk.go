package handlers

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/timer"
)

// bulkLimit is how many commands a transaction takes at most.
const bulkLimit = 1000

// A bulk is a subscriber between that of the broker and the router. Commands
// that arrive while one transaction is being committed go into the next one
// together, and each is acked after the commit, without passing through the
// router: that costs as much again as storing them (ADR 0012).
//
// The router gets every message that needs its care: what is invalid or no
// command, what the store returned an error for, and everything while the store
// is down. It then reads and applies the message itself, so that both ways have
// one meaning.
type bulk struct {
	message.Subscriber
	h *Handlers
}

// Subscribe returns the messages for the router.
func (b bulk) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := b.Subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	ready, out := make(chan *delivery, bulkLimit), make(chan *message.Message)
	go func() {
		defer close(ready)
		for msg := range in {
			if d := b.take(msg); d != nil {
				ready <- d
			} else {
				out <- msg
			}
		}
	}()
	go func() {
		defer close(out) // the router waits for it
		b.commitAll(ready, out)
	}()
	return out, nil
}

// take returns what is to be applied for a message, or nil if that is the
// router's business.
func (b bulk) take(msg *message.Message) (d *delivery) {
	defer func() {
		if recover() != nil {
			d = nil // it will panic again there, where that is seen to
		}
	}()
	if b.h.Held() {
		return nil
	}
	d = &delivery{msg: msg}
	if b.h.read(d) != nil || d.result.Outcome == OutcomeIgnored {
		return nil
	}
	return d
}

// commitAll commits whatever is ready, until there will be no more.
func (b bulk) commitAll(ready <-chan *delivery, out chan<- *message.Message) {
	batch := make([]*delivery, 0, bulkLimit)
	for d := range ready {
		batch = append(batch[:0], d)
		for more := true; more && len(batch) < bulkLimit; {
			select {
			case d, more = <-ready:
				if more {
					batch = append(batch, d)
				}
			default:
				more = false
			}
		}
		b.commit(batch, out)
		clear(batch)
	}
}

// commit applies a batch, a transaction for each type of command, and acks what
// is durable. If the store returns an error the router tries one by one.
func (b bulk) commit(batch []*delivery, out chan<- *message.Message) {
	var schedules, cancels []*delivery
	for _, d := range batch {
		if d.cancel != nil {
			cancels = append(cancels, d)
		} else {
			schedules = append(schedules, d)
		}
	}
	for _, part := range []struct {
		batch []*delivery
		apply func([]*delivery) ([]timer.Outcome, error)
	}{{schedules, b.schedule}, {cancels, b.cancel}} {
		if len(part.batch) == 0 {
			continue
		}
		outcomes, err := part.apply(part.batch)
		if err != nil {
			b.failed(len(part.batch), err)
			for _, d := range part.batch {
				out <- d.msg
			}
			continue
		}
		b.h.hold.up()
		for i, d := range part.batch {
			d.result.Outcome = outcomes[i].String()
			b.h.opt.Handled(d.result)
			failpoint.Here("handled")
			d.msg.Ack()
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

func (b bulk) schedule(batch []*delivery) (outcomes []timer.Outcome, err error) {
	defer recovered(&err)
	commands := make([]timer.ScheduleTimer, len(batch))
	for i, d := range batch {
		commands[i] = *d.schedule
	}
	return b.h.schedule(b.h.working, commands...)
}

func (b bulk) cancel(batch []*delivery) (outcomes []timer.Outcome, err error) {
	defer recovered(&err)
	commands := make([]timer.CancelTimer, len(batch))
	for i, d := range batch {
		commands[i] = *d.cancel
	}
	return b.h.cancel(b.h.working, commands...)
}

// recovered makes an error of a panic.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}
