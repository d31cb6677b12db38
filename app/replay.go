package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A target is changed by a replay. It is a [database] or a [dryStore].
type target interface {
	timer.Commands
	List(ctx context.Context, f timer.Filter) (timer.Page, error)
	Fired(ctx context.Context, keep time.Duration, events ...timer.DueTimeReached) (changed int, err error)
	setFiring(ctx context.Context, pauses timer.Pauses) error
}

// replay applies the messages that the broker has behind positions: marks of operators, then
// commands that were delivered before, then events. It leaves out commands that became dead
// letters, and commands and events of a tenant from before it was forgotten. After each batch
// it calls applied with the numbers so far and the batch, and ends with an error of applied.
func (r *recovery) replay(
	ctx context.Context, to target, from []timer.Position, applied func(Recovered, broker.Kind, []broker.Stored) error,
) (done Recovered, err error) {
	m, err := r.readMarks(ctx, from)
	if err != nil {
		return done, fmt.Errorf("read dead letters: %w", err)
	}
	if err := to.setFiring(ctx, m.firing); err != nil {
		return done, err
	}
	if err := broker.Replay(ctx, r.history, r.role, broker.Commands, from, func(batch []broker.Stored) error {
		changed, err := r.apply(ctx, to, m, batch)
		if err != nil {
			return err
		}
		done.Commands, done.Timers = done.Commands+int64(len(batch)), done.Timers+changed
		return applied(done, broker.Commands, batch)
	}); err != nil {
		return done, fmt.Errorf("read commands again: %w", err)
	}
	if err := broker.Replay(ctx, r.history, r.role, broker.Events, from, func(batch []broker.Stored) error {
		changed, err := to.Fired(ctx, r.keep, m.eventsOf(batch)...)
		if err != nil {
			return err
		}
		done.Events, done.Reached = done.Events+int64(len(batch)), done.Reached+int64(changed)
		return applied(done, broker.Events, batch)
	}); err != nil {
		return done, fmt.Errorf("read events again: %w", err)
	}
	return done, nil
}

// sameTime is how much earlier than it was stored a command may count as registered, so that
// many are applied at once.
const sameTime = 10 * time.Second

// apply applies the commands of a batch, and returns how many timers they changed.
func (r *recovery) apply(ctx context.Context, to target, m marks, batch []broker.Stored) (changed int64, err error) {
	var schedules []timer.ScheduleTimer
	var cancels []timer.CancelTimer
	var first time.Time // when the first of them was stored: they count as registered then
	flush := func() error {
		scheduled, err := to.Schedule(ctx, first, schedules...)
		if err != nil {
			return err
		}
		canceled, err := to.Cancel(ctx, first, cancels...)
		if err != nil {
			return err
		}
		changed += changes(scheduled) + changes(canceled)
		schedules, cancels = nil, nil
		return nil
	}
	for _, stored := range batch {
		some, cancel, err := r.decode(ctx, m, stored)
		if err != nil {
			return changed, err
		}
		if stored.At.Before(first) || stored.At.Sub(first) > sameTime {
			if err := flush(); err != nil {
				return changed, err
			}
			first = stored.At
		}
		schedules, cancels = append(schedules, some...), append(cancels, cancel.Commands()...)
		if cancel.CommandID == "" || len(cancel.Of.Calls) > 0 {
			continue
		}
		if err := flush(); err != nil { // a prefix or a correlation id concerns the timers that are there then
			return changed, err
		}
		n, err := timer.CancelSelected(ctx, cancel, to.List, func(ctx context.Context, cancels ...timer.CancelTimer) ([]timer.Result, error) {
			return to.Cancel(ctx, first, cancels...)
		})
		if changed += int64(n.Canceled); err != nil {
			return changed, err
		}
	}
	return changed, flush()
}

// decode returns the commands of a message. It returns none if they are invalid, became a
// dead letter, or are of a tenant that was forgotten later.
func (r *recovery) decode(ctx context.Context, m marks, stored broker.Stored) (schedules []timer.ScheduleTimer, cancel timer.CancelTimers, err error) {
	if m.dead[placeOf(stored.Message.Metadata, broker.MetaTopic, broker.MetaPosition)] {
		return nil, cancel, nil
	}
	schedules, cancel, err = r.handlers.Decode(ctx, stored.Message, stored.At)
	if err != nil || len(schedules) > 0 && m.forgot(schedules[0].TenantID, stored.At) || m.forgot(cancel.TenantID, stored.At) {
		return nil, timer.CancelTimers{}, ignore(err, timer.ErrInvalid)
	}
	return schedules, cancel, nil
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

// A place is the topic and position of a message.
type place struct{ topic, position string }

func placeOf(headers map[string]string, topic, position string) place {
	return place{headers[topic], headers[position]}
}

// Marks are what dead letters, and the marks of operators among them, say about commands.
type marks struct {
	dead      map[place]bool               // commands that became dead letters
	forgotten map[timer.TenantID]time.Time // messages of a tenant from before this time are left out
	firing    timer.Pauses                 // the last pause of each tenant, and of all; the zero value if firing was resumed
}

// readMarks reads the dead letters behind positions. In a log that holds both, a dead letter
// is behind its command.
func (r *recovery) readMarks(ctx context.Context, from []timer.Position) (marks, error) {
	m := marks{make(map[place]bool), make(map[timer.TenantID]time.Time), make(timer.Pauses)}
	behind := make([]timer.Position, len(from))
	for i, p := range from {
		behind[i] = timer.Position{Log: p.Log, Observed: p.Committed}
	}
	var decided []broker.Stored
	err := broker.Replay(ctx, r.history, r.role, broker.DeadLetter, behind, func(batch []broker.Stored) error {
		for _, d := range batch {
			m.dead[placeOf(d.Message.Metadata, envelope.HeaderDeadLetterTopic, envelope.HeaderDeadLetterPosition)] = true
			if deadletter.MarkOf(d.Message) != "" {
				decided = append(decided, d)
			}
		}
		return nil
	})
	slices.SortStableFunc(decided, func(a, b broker.Stored) int { return a.At.Compare(b.At) })
	for _, d := range decided {
		m.note(d)
	}
	return m, err
}

// note adds a mark to the marks from before it.
func (m *marks) note(mark broker.Stored) {
	get := mark.Message.Metadata.Get
	tenant := timer.TenantID(get(envelope.HeaderTenantID))
	switch deadletter.MarkOf(mark.Message) {
	case deadletter.MarkForgotten:
		m.forgotten[tenant], m.firing[tenant] = mark.At, timer.Pause{}
	case deadletter.MarkResumed:
		m.firing[tenant] = timer.Pause{}
	case deadletter.MarkPaused:
		pause := m.firing[tenant]
		if !pause.InForce(mark.At) { // a pause that is in force only gets another end
			pause = timer.Pause{TenantID: tenant, Since: mark.At, By: get(envelope.HeaderMarkBy)}
		}
		pause.Until, _ = time.Parse(time.RFC3339Nano, get(envelope.HeaderMarkUntil)) // else until it is resumed
		m.firing[tenant] = pause
	}
}

// forgot reports whether a tenant was forgotten after a time.
func (m *marks) forgot(tenant timer.TenantID, at time.Time) bool {
	until, is := m.forgotten[tenant]
	return is && !at.After(until)
}

// eventsOf returns the events among messages, except those of tenants that were forgotten
// later.
func (m *marks) eventsOf(batch []broker.Stored) []timer.DueTimeReached {
	events := make([]timer.DueTimeReached, 0, len(batch))
	for _, stored := range batch {
		decoded, err := envelope.Decode(stored.Message.Payload)
		if err != nil {
			continue
		}
		if e, ok := timer.EventOf(decoded.Payload); ok && !m.forgot(e.TenantID, e.ReachedAt) {
			events = append(events, e)
		}
	}
	return events
}

// setFiring pauses or resumes firing, of all or of tenants.
func (d database) setFiring(ctx context.Context, pauses timer.Pauses) (err error) {
	for tenant, pause := range pauses {
		if pause.InForce(pause.Since) {
			err = errors.Join(err, d.PauseFiring(ctx, pause))
		} else {
			err = errors.Join(err, d.ResumeFiring(ctx, tenant))
		}
	}
	return err
}
