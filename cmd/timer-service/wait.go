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

// A tail is what the service tells a tenant from now on.
type tail struct {
	events, deadLetters <-chan *message.Message
	ears                []ear
}

// tailOf begins to listen. What is published after it returned will be seen.
func tailOf(ctx context.Context, c *client, tenant timer.TenantID) (*tail, error) {
	t := new(tail)
	for _, s := range []struct {
		topic string
		to    *<-chan *message.Message
	}{
		{c.Routing().EventsOf(tenant), &t.events},
		{c.Routing().DeadLettersOf(tenant), &t.deadLetters},
	} {
		e, messages, err := listen(ctx, c, s.topic)
		if err != nil {
			t.close()
			return nil, err
		}
		t.ears, *s.to = append(t.ears, e), messages
	}
	return t, nil
}

// close ends the listening.
func (t *tail) close() {
	for _, e := range t.ears {
		e.close()
	}
}

// await waits for the event of a command, or its dead letter, until a time
// after it is due, and notes in done what came. All but the event is an error.
func (t *tail) await(
	ctx context.Context, now func() time.Time,
	asked timer.ScheduleTimer, cmd command, timeout time.Duration, done *published,
) error {
	patience := time.NewTimer(max(asked.DueAt.Sub(now()), 0) + timeout)
	defer patience.Stop()
	for {
		select {
		case m, open := <-t.events:
			if !open {
				return t.lost(ctx, asked.Key)
			}
			arrived := now()
			m.Ack()
			if event, ok := eventOf(m, asked); ok {
				done.fired(event, arrived)
				return nil
			}
		case m, open := <-t.deadLetters:
			if !open {
				return t.lost(ctx, asked.Key)
			}
			m.Ack()
			if isOf(m, cmd) {
				return done.refused(m)
			}
		case <-ctx.Done():
			return t.lost(ctx, asked.Key)
		case <-patience.C:
			done.Result = resultTimeout
			return fmt.Errorf("%s: no event within %s of the due time; it may have fired before, or been replaced or canceled: see %q",
				asked.Key, config.FormatDuration(timeout), fmt.Sprintf("%s get %s %s", program, asked.TenantID, asked.ServiceCallID))
		}
	}
}

// lost is the error of a wait that ended for another reason than time. The
// timer stays as it is.
func (t *tail) lost(ctx context.Context, key timer.Key) error {
	reason := errors.New("the broker hung up")
	if ctx.Err() != nil {
		reason = errors.New("interrupted")
	}
	return fmt.Errorf("%s: stopped waiting, and the timer stays: %w", key, reason)
}

// eventOf returns the event that a message carries if it is the one asked for:
// of this key, and of this due time, since an earlier one may be on its way.
func eventOf(m *message.Message, asked timer.ScheduleTimer) (timer.DueTimeReached, bool) {
	decoded, err := envelope.Decode(m.Payload)
	if err != nil {
		return timer.DueTimeReached{}, false // not ours
	}
	event, ok := decoded.Payload.(timer.DueTimeReached)
	return event, ok && event.Key == asked.Key && event.DueAt.Equal(timer.RoundUp(asked.DueAt))
}

// isOf reports whether a dead letter is that of the command.
func isOf(m *message.Message, cmd command) bool {
	return m.Metadata.Get(envelope.HeaderDeadLetterOriginalID) == cmd.id || bytes.Equal(m.Payload, cmd.body)
}

// refused notes the dead letter, and returns the error that it is.
func (p *published) refused(m *message.Message) error {
	p.Result = resultDeadLetter
	p.Reason = timer.Reason(printable(m.Metadata.Get(envelope.HeaderDeadLetterReason)))
	p.Detail = printable(m.Metadata.Get(envelope.HeaderDeadLetterDetail))
	return fmt.Errorf("%s.%s: refused: %s (%s)", p.TenantID, p.ServiceCallID, p.Detail, p.Reason)
}
