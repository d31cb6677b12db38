package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// commands applies the commands behind positions that were delivered before, except those
// commands that became dead letters. It calls applied after each batch, with the number of
// the last message of each log. While a batch is applied it reads and decodes the next one.
func (r *recovery) commands(ctx context.Context, from []timer.Position, applied func(last map[string]int64, messages int, changed int64)) error {
	if err := r.readMarks(ctx, from); err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	var applying errgroup.Group
	err := broker.Replay(ctx, r.history, r.role, broker.Commands, from, func(batch []broker.Stored) error {
		commands, err := r.decode(ctx, batch)
		if err = errors.Join(applying.Wait(), err); err != nil {
			return err
		}
		last, messages := make(map[string]int64), len(batch)
		ends(last, batch)
		applying = errgroup.Group{}
		applying.Go(func() error {
			changed, err := r.apply(ctx, commands)
			if err == nil {
				applied(last, messages, changed)
			}
			return err
		})
		return nil
	})
	if err = errors.Join(applying.Wait(), err); err != nil {
		return fmt.Errorf("read commands again: %w", err)
	}
	return nil
}

// ends sets the number of each log in a batch to that of its last message there, if that is higher.
func ends(numbers map[string]int64, batch []broker.Stored) {
	for _, m := range batch {
		numbers[m.Log] = max(numbers[m.Log], m.Number)
	}
}

// apply applies commands, and returns how many timers they changed.
func (r *recovery) apply(ctx context.Context, commands []*decoded) (changed int64, err error) {
	for _, d := range commands {
		if len(d.schedules) > 0 {
			results, err := r.store.Schedule(ctx, d.first, d.schedules...)
			if err != nil {
				return 0, err
			}
			changed += changes(results)
		}
		if len(d.cancels) > 0 {
			results, err := r.store.Cancel(ctx, d.first, d.cancels...)
			if err != nil {
				return 0, err
			}
			changed += changes(results)
		}
		if d.selected.CommandID != "" {
			n, err := timer.CancelSelected(ctx, d.selected, r.store.List, func(ctx context.Context, cancels ...timer.CancelTimer) ([]timer.Result, error) {
				return r.store.Cancel(ctx, d.first, cancels...)
			})
			if err != nil {
				return 0, err
			}
			changed += int64(n.Canceled)
		}
	}
	return changed, nil
}

// A decoded holds commands that were stored within sameTime.
type decoded struct {
	schedules []timer.ScheduleTimer
	cancels   []timer.CancelTimer
	selected  timer.CancelTimers // by prefix or correlation id, applied after the others: it concerns the timers that are there then
	first     time.Time          // when the first of them was stored: they count as registered then
}

// sameTime is how much earlier than it was stored a command may count as registered, so that
// many are applied at once.
const sameTime = 10 * time.Second

// decode decodes a batch. It leaves out commands that are invalid or became dead letters, and
// commands of tenants that were forgotten later.
func (r *recovery) decode(ctx context.Context, batch []broker.Stored) (all []*decoded, err error) {
	for _, m := range batch {
		if r.marks.dead[placeOf(m.Message.Metadata, broker.MetaTopic, broker.MetaPosition)] {
			continue
		}
		schedules, cancel, err := r.handlers.Decode(ctx, m.Message, m.At)
		if err != nil && !errors.Is(err, timer.ErrInvalid) {
			return all, err
		}
		if len(schedules) > 0 && r.marks.forgot(schedules[0].TenantID, m.At) || r.marks.forgot(cancel.TenantID, m.At) {
			continue
		}
		if n := len(all); n == 0 || all[n-1].selected.CommandID != "" || m.At.Before(all[n-1].first) || m.At.Sub(all[n-1].first) > sameTime {
			all = append(all, &decoded{first: m.At})
		}
		d := all[len(all)-1]
		d.schedules, d.cancels = append(d.schedules, schedules...), append(d.cancels, cancel.Commands()...)
		if len(cancel.Of.Calls) == 0 {
			d.selected = cancel
		}
	}
	return all, nil
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
	forgotten map[timer.TenantID]time.Time // until when what a tenant had is forgotten
	firing    timer.Pauses                 // what was last decided about firing, of tenants and of all: to pause it, or not
	decided   map[timer.TenantID]time.Time // when that was
}

// forgot reports whether what came of a tenant at a time was forgotten later.
func (m *marks) forgot(tenant timer.TenantID, at time.Time) bool {
	until, is := m.forgotten[tenant]
	return is && !at.After(until)
}

// note notes a mark.
func (m *marks) note(mark broker.Stored) {
	get := mark.Message.Metadata.Get
	tenant, kind := timer.TenantID(get(envelope.HeaderTenantID)), deadletter.MarkOf(mark.Message)
	if kind == deadletter.MarkForgotten && mark.At.After(m.forgotten[tenant]) {
		m.forgotten[tenant] = mark.At
	}
	if kind == "" || kind == deadletter.MarkDiscarded || mark.At.Before(m.decided[tenant]) {
		return
	}
	m.decided[tenant] = mark.At
	if kind != deadletter.MarkPaused {
		m.firing[tenant] = timer.Pause{}
		return
	}
	pause := m.firing[tenant]
	if !pause.InForce(mark.At) { // else to pause again changes the end
		pause = timer.Pause{TenantID: tenant, Since: mark.At, By: get(envelope.HeaderMarkBy)}
	}
	pause.Until, _ = time.Parse(time.RFC3339Nano, get(envelope.HeaderMarkUntil)) // else until it is resumed
	m.firing[tenant] = pause
}

// pauseAgain pauses or resumes firing, as operators decided last.
func (r *recovery) pauseAgain(ctx context.Context) (err error) {
	for tenant, pause := range r.marks.firing {
		if pause.InForce(pause.Since) {
			err = errors.Join(err, r.store.PauseFiring(ctx, pause))
		} else {
			err = errors.Join(err, r.store.ResumeFiring(ctx, tenant))
		}
	}
	return err
}

// readMarks reads the dead letters behind positions. In a log that holds both, a dead letter
// is behind its command.
func (r *recovery) readMarks(ctx context.Context, from []timer.Position) error {
	r.marks = marks{
		dead: make(map[place]bool), forgotten: make(map[timer.TenantID]time.Time),
		firing: make(timer.Pauses), decided: make(map[timer.TenantID]time.Time),
	}
	behind := make([]timer.Position, len(from))
	for i, p := range from {
		behind[i] = timer.Position{Log: p.Log, Observed: p.Committed}
	}
	return broker.Replay(ctx, r.history, r.role, broker.DeadLetter, behind, func(batch []broker.Stored) error {
		for _, m := range batch {
			r.marks.note(m)
			r.marks.dead[placeOf(m.Message.Metadata, envelope.HeaderDeadLetterTopic, envelope.HeaderDeadLetterPosition)] = true
		}
		return nil
	})
}

// events marks the timers of the events behind positions as Reached or Expired. It calls noted
// after each batch.
func (r *recovery) events(ctx context.Context, from []timer.Position, noted func(batch []broker.Stored, changed int)) error {
	if err := broker.Replay(ctx, r.history, r.role, broker.Events, from, func(batch []broker.Stored) error {
		events := slices.DeleteFunc(eventsOf(batch), func(e timer.DueTimeReached) bool { return r.marks.forgot(e.TenantID, e.ReachedAt) })
		changed, err := r.store.Fired(ctx, r.keep, events...)
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
		if e, ok := timer.EventOf(decoded.Payload); ok {
			events = append(events, e)
		}
	}
	return events
}
