package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// The answers are what the service publishes for a tenant from now on, and what
// the database says of a command.
type answers struct {
	events, deadLetters <-chan *message.Message
	conclusions         <-chan conclusion // nil if no database can be read here
}

// answersOf subscribes to the answers for a tenant. What is published after it
// returned will arrive.
func (c *connection) answersOf(ctx context.Context, tenant timer.TenantID) (*answers, error) {
	events, err := c.listen(ctx, c.Routing().EventsOf(tenant))
	if err != nil {
		return nil, err
	}
	deadLetters, err := c.listen(ctx, c.Routing().DeadLettersOf(tenant))
	return &answers{events: events, deadLetters: deadLetters}, err
}

// defaultTimeout is how long to wait for an answer, after the due time if there is
// one.
const defaultTimeout = duration(30 * time.Second)

// checkTimeout returns what is wrong with the --timeout of a verb.
func checkTimeout(verb string, wait bool, timeout *duration) error {
	switch {
	case timeout != nil && !wait:
		return wrong(verb, "--timeout needs --wait")
	case timeout != nil && *timeout <= 0:
		return wrong(verb, "--timeout must be more than 0, such as 30s")
	}
	return nil
}

// report prints a command that was published, waits for its answer unless a is nil,
// and prints that.
func (a *answers) report(
	ctx context.Context, e *env, m *message.Message, done *published, timeout *duration, judge func(timer.Entry, timer.Version) *conclusion,
) error {
	if a == nil || !e.out.json {
		e.out.print(done) // before the wait, which may be long
	}
	if a == nil {
		return nil
	}
	if timeout == nil {
		timeout = new(defaultTimeout)
	}
	polling, stop := context.WithCancel(ctx)
	defer stop()
	a.conclusions = conclusions(polling, e, done, judge)
	err := a.wait(ctx, e.now, m, time.Duration(*timeout), done)
	switch {
	case e.out.json:
		e.out.print(done)
	case err == nil:
		fmt.Fprintln(e.out.w, done.answer())
	}
	return err
}

// wait waits for the event of a command, its dead letter, or another outcome, until
// the timeout after the due time, and adds it to done. Everything but the event, or
// the end of a timer that was to be canceled, is an error.
func (a *answers) wait(ctx context.Context, now func() time.Time, m *message.Message, timeout time.Duration, done *published) error {
	due := time.Time(done.DueAt)
	deadline := time.NewTimer(max(due.Sub(now()), 0) + timeout)
	defer deadline.Stop()
	for {
		select {
		case answer, open := <-a.events:
			if !open {
				return stopped(ctx, done.key())
			}
			arrived := now()
			answer.Ack()
			if done.fired(answer, arrived) {
				return nil
			}
		case answer, open := <-a.deadLetters:
			if !open {
				return stopped(ctx, done.key())
			}
			answer.Ack()
			if answer.Metadata.Get(envelope.HeaderDeadLetterOriginalID) == m.UUID || bytes.Equal(answer.Payload, m.Payload) {
				return done.refused(timer.Reason(answer.Metadata.Get(envelope.HeaderDeadLetterReason)), answer.Metadata.Get(envelope.HeaderDeadLetterDetail))
			}
		case c := <-a.conclusions:
			if c.dead != nil {
				return done.refused(c.dead.Reason, c.dead.Detail)
			}
			done.Result, done.ReachedAt = c.result, stamp(c.reachedAt)
			if c.result == resultReached {
				done.EventID, done.LatenessMS = c.eventID, new(c.reachedAt.Sub(due).Milliseconds())
			}
			return c.err
		case <-ctx.Done():
			return stopped(ctx, done.key())
		case <-deadline.C:
			done.Result = resultTimeout
			return fmt.Errorf("%s: no answer within %s of the due time; the service may be down, or the timer may have fired, been replaced or canceled: see %q",
				done.key(), config.FormatDuration(timeout), fmt.Sprintf("%s get %s %s", program, done.TenantID, done.ServiceCallID))
		}
	}
}

// stopped returns the error of a wait that ended before its timeout.
func stopped(ctx context.Context, key timer.Key) error {
	reason := errHungUp
	if ctx.Err() != nil {
		reason = errors.New("interrupted")
	}
	return fmt.Errorf("%s: stopped waiting; the timer is still scheduled: %w", key, reason)
}

// fired reports whether a message is the event of the command: of its key and its
// due time, since an earlier event of the key may arrive late. If so, it adds the
// event to p.
func (p *published) fired(m *message.Message, arrived time.Time) bool {
	decoded, err := envelope.Decode(m.Payload)
	if err != nil {
		return false // from another producer
	}
	due := timer.RoundUp(time.Time(p.DueAt))
	event, ok := decoded.Payload.(timer.DueTimeReached)
	if !ok || event.Key != p.key() || !event.DueAt.Equal(due) {
		return false
	}
	late, delay := event.Lateness().Milliseconds(), arrived.Sub(event.DueAt).Milliseconds()
	p.Result, p.EventID, p.ReachedAt = resultReached, event.ID, stamp(event.ReachedAt)
	p.LatenessMS, p.ArrivalDelayMS = &late, &delay
	return true
}

// refused adds the dead letter to p, and returns it as an error.
func (p *published) refused(reason timer.Reason, detail string) error {
	p.Result = resultDeadLetter
	p.Reason, p.Detail = timer.Reason(printable(string(reason))), printable(detail)
	return fmt.Errorf("%s: refused: %s (%s)", p.key(), p.Detail, p.Reason)
}
