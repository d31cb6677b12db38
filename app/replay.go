package app

import (
	"context"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// commands applies the commands that were delivered before, behind positions, but for
// those that are dead letters. It calls applied after each batch.
func (r *recovery) commands(ctx context.Context, from []timer.Position, applied func(batch []broker.Stored, changed int64)) error {
	dead, err := r.deadLettered(ctx)
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	if err := r.broker.Replay(ctx, r.role, broker.Commands, from, func(batch []broker.Stored) error {
		changed, err := r.apply(ctx, batch, dead)
		if err == nil {
			applied(batch, changed)
		}
		return err
	}); err != nil {
		return fmt.Errorf("read commands again: %w", err)
	}
	return nil
}

// ends raises numbers to those of the last messages of a batch.
func ends(numbers map[string]int64, batch []broker.Stored) {
	for _, m := range batch {
		numbers[m.Log] = max(numbers[m.Log], m.Number)
	}
}

// apply applies the commands of a batch, and returns how many timers they changed.
func (r *recovery) apply(ctx context.Context, batch []broker.Stored, dead map[place]bool) (changed int64, err error) {
	schedules, cancels, now := r.decode(ctx, batch, dead)
	if len(schedules) > 0 {
		results, err := r.store.Schedule(ctx, now, schedules...)
		if err != nil {
			return 0, err
		}
		changed += changes(results)
	}
	if len(cancels) > 0 {
		results, err := r.store.Cancel(ctx, now, cancels...)
		if err != nil {
			return 0, err
		}
		changed += changes(results)
	}
	return changed, nil
}

// decode returns the commands of a batch, and when the first of its messages was stored,
// which is when they count as registered.
func (r *recovery) decode(ctx context.Context, batch []broker.Stored, dead map[place]bool) (schedules []timer.ScheduleTimer, cancels []timer.CancelTimer, first time.Time) {
	first = batch[0].At
	for _, m := range batch {
		if m.At.Before(first) {
			first = m.At
		}
		if dead[placeOf(m.Message.Metadata, broker.MetaTopic, broker.MetaPosition)] {
			continue
		}
		s, c, err := r.handlers.Decode(ctx, m.Message, m.At)
		if err != nil { // it is a dead letter, or will be
			continue
		}
		schedules, cancels = append(schedules, s...), append(cancels, c...)
	}
	return schedules, cancels, first
}

// changes counts the results that changed a timer.
func changes(results []timer.Result) (n int64) {
	for _, r := range results {
		switch r.Outcome {
		case timer.DidSchedule, timer.DidReschedule, timer.DidCancel:
			n++
		}
	}
	return n
}

// A place is where a message stands.
type place struct{ topic, position string }

func placeOf(headers map[string]string, topic, position string) place {
	return place{headers[topic], headers[position]}
}

// deadLettered returns the places of the commands that are dead letters.
func (r *recovery) deadLettered(ctx context.Context) (map[place]bool, error) {
	dead := make(map[place]bool)
	err := r.broker.Replay(ctx, r.role, broker.DeadLetter, nil, func(batch []broker.Stored) error {
		for _, m := range batch {
			dead[placeOf(m.Message.Metadata, envelope.HeaderDeadLetterTopic, envelope.HeaderDeadLetterPosition)] = true
		}
		return nil
	})
	return dead, err
}

// events notes that the timers of events are Reached that stand behind positions. It
// calls noted after each batch.
func (r *recovery) events(ctx context.Context, from []timer.Position, noted func(batch []broker.Stored, changed int)) error {
	if err := r.broker.Replay(ctx, r.role, broker.Events, from, func(batch []broker.Stored) error {
		changed, err := r.store.Fired(ctx, r.keep, eventsOf(batch)...)
		if err == nil {
			noted(batch, changed)
		}
		return err
	}); err != nil {
		return fmt.Errorf("read events again: %w", err)
	}
	return nil
}

// eventsOf returns the events among messages.
func eventsOf(batch []broker.Stored) []timer.DueTimeReached {
	events := make([]timer.DueTimeReached, 0, len(batch))
	for _, m := range batch {
		decoded, err := envelope.Decode(m.Message.Payload)
		if err != nil {
			continue
		}
		if e, ok := decoded.Payload.(timer.DueTimeReached); ok {
			e.ID = decoded.ID
			events = append(events, e)
		}
	}
	return events
}
