package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// replay applies the messages of a reading: marks of operators, then commands, then events. It
// leaves out commands that became dead letters or wait in the inbox, and commands and events of
// a tenant from before it was forgotten.
func (r *recovery) replay(ctx context.Context, p reading, report func(done Recovered, ahead int64)) (done Recovered, err error) {
	m, err := r.readMarks(ctx, p)
	if err != nil {
		return done, fmt.Errorf("read dead letters: %w", err)
	}
	if err := r.decide(ctx, m); err != nil {
		return done, fmt.Errorf("apply what operators decided: %w", err)
	}
	after, upTo, floors := p.of(broker.Commands)
	c := commandReplay{recovery: r, marks: m, floors: floors}
	ahead := p.ahead(broker.Commands)
	if err := r.history.Read(ctx, broker.Commands, after, upTo, func(batch []broker.Stored) error {
		lost, err := c.apply(ctx, batch)
		for _, s := range batch {
			ahead -= max(0, s.Number-after[s.Log])
			after[s.Log] = max(after[s.Log], s.Number)
		}
		done.Commands, done.Timers = done.Commands+int64(len(batch)), done.Timers+lost
		report(done, ahead)
		return err
	}); err != nil {
		return done, fmt.Errorf("read commands: %w", err)
	}
	after, upTo, _ = p.of(broker.Events)
	if err := r.history.Read(ctx, broker.Events, after, upTo, func(batch []broker.Stored) error {
		changed, err := r.db.Fired(ctx, r.keep, r.eventsOf(m, batch)...)
		done.Events, done.Reached = done.Events+int64(len(batch)), done.Reached+int64(changed)
		report(done, 0)
		return err
	}); err != nil {
		return done, fmt.Errorf("read events: %w", err)
	}
	return done, nil
}

// sameTime is how much earlier than it was stored a command may count as registered, so that
// many are applied at once.
const sameTime = 10 * time.Second

// A commandReplay applies commands that were read.
type commandReplay struct {
	*recovery
	marks  marks
	floors map[string]int64 // by log: commands up to it were taken before

	first     time.Time // when the first of the waiting commands was stored: they count as registered then
	schedules []timer.ScheduleTimer
	cancels   []timer.CancelTimer
	taken     map[timer.Version]bool // whether the commands of a message were taken before
	waiting   []timer.InboxMessage
}

// apply applies the commands of a batch, and returns how many timers were changed by commands
// that had been taken before.
func (c *commandReplay) apply(ctx context.Context, batch []broker.Stored) (lost int64, err error) {
	numbers := make(map[string][]int64)
	for _, stored := range batch {
		numbers[stored.Log] = append(numbers[stored.Log], stored.Number)
	}
	inInbox, err := c.inInbox(ctx, numbers)
	if err != nil {
		return 0, err
	}
	c.begin()
	defer func() {
		if err != nil { // the rest was allowed and is not applied: a later try asks for it again
			c.quotas.Done(c.schedules, nil)
		}
	}()
	flush := func() error {
		n, err := c.flush(ctx)
		lost += n
		return err
	}
	for _, stored := range batch {
		if _, waits := inInbox[stored.Log][stored.Number]; waits || c.marks.isDead(stored) {
			continue
		}
		original := asReceived(stored)
		schedules, command, err := c.decode(ctx, stored)
		if ctx.Err() != nil {
			return lost, ctx.Err()
		}
		if err != nil { // one message must not keep all others waiting
			if original = c.handlers.Fails(original, err); !c.marks.forgot(original.TenantID, stored.At) {
				c.waiting = append(c.waiting, original)
			}
			continue
		}
		if stored.At.Before(c.first) || stored.At.Sub(c.first) > sameTime {
			if err := flush(); err != nil {
				return lost, err
			}
			c.first = stored.At
		}
		taken := stored.Number <= c.floors[stored.Log]
		if len(schedules) > 0 {
			if err := c.schedule(ctx, original, schedules, taken); err != nil {
				return lost, err
			}
			continue
		}
		if command.CommandID == "" {
			continue
		}
		c.taken[command.Version] = taken
		command.Receipt = c.routing.Receipts != "" && !taken
		if command.IsLasting() {
			c.cancels = append(c.cancels, command.Commands()...)
			continue
		}
		if err := flush(); err != nil { // it concerns the timers that are there then
			return lost, err
		}
		n, err := timer.ApplySelected(ctx, command, c.db.List, func(ctx context.Context, step timer.SelectionStep) ([]timer.Result, error) {
			return step.Apply(ctx, stored.At, c.db)
		})
		if taken {
			lost += int64(n.Changed)
		}
		if err != nil {
			return lost, err
		}
		applied := handlers.Applied(command, stored.At) // before later commands are applied, whose timers it must not select at the next start
		applied.Log, applied.Number, applied.Topic, applied.Position = original.Log, original.Number, original.Topic, original.Position
		if err := c.inbox.PutInbox(ctx, applied); err != nil {
			return lost, err
		}
	}
	return lost, flush()
}

func (c *commandReplay) begin() {
	c.schedules, c.cancels, c.waiting = nil, nil, nil
	c.taken = make(map[timer.Version]bool)
}

// schedule adds schedules to the next flush, or their message to the waiting ones if it exceeds
// a quota of its tenant. A message that was taken before had its share of the
// rate then.
func (c *commandReplay) schedule(ctx context.Context, original timer.InboxMessage, schedules []timer.ScheduleTimer, taken bool) error {
	turn := quota.Fresh
	if taken {
		turn = quota.Taken
	}
	exceeded, err := c.quotas.Allow(ctx, c.db, turn, schedules...)
	if err != nil {
		return err
	}
	if exceeded != nil {
		original.TenantID, original.Reason, original.RetryAt = schedules[0].TenantID, timer.WaitQuota, c.clock.Now()
		c.waiting = append(c.waiting, original)
		return nil
	}
	for _, s := range schedules {
		s.Receipt = c.routing.Receipts != "" && !taken
		c.schedules = append(c.schedules, s)
	}
	c.taken[schedules[0].Version] = taken
	return nil
}

// flush applies the commands that were gathered.
func (c *commandReplay) flush(ctx context.Context) (lost int64, err error) {
	defer c.begin()
	scheduled, err := c.db.Schedule(ctx, c.first, c.schedules...)
	c.quotas.Done(c.schedules, scheduled)
	if err != nil {
		return 0, err
	}
	for i, r := range scheduled {
		if c.taken[c.schedules[i].Version] && didChange(r) {
			lost++
		}
	}
	canceled, err := c.db.Cancel(ctx, c.first, c.cancels...)
	if err != nil {
		return lost, err
	}
	for i, r := range canceled {
		if c.taken[c.cancels[i].Version] && didChange(r) {
			lost++
		}
	}
	return lost, c.inbox.PutInbox(ctx, c.waiting...)
}

// didChange reports whether a command changed its timer.
func didChange(r timer.Result) bool {
	return r.Outcome == timer.DidSchedule || r.Outcome == timer.DidReschedule || r.Outcome == timer.DidCancel
}

// inInbox returns which numbers are in the inbox, by log, with the Seq of each.
func (r *recovery) inInbox(ctx context.Context, numbers map[string][]int64) (map[string]map[int64]int64, error) {
	found := make(map[string]map[int64]int64)
	for log, all := range numbers {
		in, err := r.inbox.InInbox(ctx, log, all...)
		if err != nil {
			return nil, err
		}
		found[log] = in
	}
	return found, nil
}

// leaveInbox deletes messages from the inbox that became dead letters.
func (r *recovery) leaveInbox(ctx context.Context, numbers map[string][]int64) error {
	found, err := r.inInbox(ctx, numbers)
	for _, in := range found {
		err = cmp.Or(err, r.inbox.DeleteInbox(ctx, slices.Collect(maps.Values(in))...))
	}
	return err
}

// asReceived returns a message as it goes into the inbox, before the middleware of the host
// program has seen it.
func asReceived(stored broker.Stored) timer.InboxMessage {
	headers := maps.Clone(map[string]string(stored.Message.Metadata))
	m := timer.InboxMessage{
		Log: stored.Log, Number: stored.Number, Topic: headers[broker.MetaTopic], Position: headers[broker.MetaPosition],
		MessageID: stored.Message.UUID, Headers: headers, Body: slices.Clone(stored.Message.Payload), ArrivedAt: stored.At,
	}
	maps.DeleteFunc(headers, func(name, _ string) bool { return broker.IsMeta(name) })
	return m
}

// decode returns the commands of a message. It returns none if they are invalid, or are of a
// tenant that was forgotten later. The error is that of the middleware of the host program.
func (c *commandReplay) decode(ctx context.Context, stored broker.Stored) (schedules []timer.ScheduleTimer, selection timer.SelectionCommand, err error) {
	schedules, selection, err = c.handlers.Decode(ctx, stored.Message, stored.At)
	if err != nil || len(schedules) > 0 && c.marks.forgot(schedules[0].TenantID, stored.At) || c.marks.forgot(selection.TenantID, stored.At) {
		return nil, timer.SelectionCommand{}, ignore(err, timer.ErrInvalid)
	}
	return schedules, selection, nil
}

// A place is the topic and position of a message.
type place struct{ topic, position string }

func placeOf(headers map[string]string, topic, position string) place {
	return place{headers[topic], headers[position]}
}

// Marks are the facts about commands in dead letters, and in the marks of operators among them.
type marks struct {
	dead      map[place]time.Time            // commands that became dead letters, and when
	forgotten map[timer.TenantID]time.Time   // messages of a tenant from before this time are left out
	decided   map[decisionKey]timer.Decision // the last decisions, as the broker knows them
}

// A decisionKey is the subject of a decision.
type decisionKey struct {
	tenant timer.TenantID
	kind   timer.DecisionKind
}

// clocksDiffer is how much earlier than its command a dead letter may seem to be: their times come
// from two brokers, or that of the command from its producer.
const clocksDiffer = 10 * time.Second

// isDead reports whether a command became a dead letter. One from before the command is about
// another message, of an earlier log with the same name.
func (m *marks) isDead(stored broker.Stored) bool {
	at, is := m.dead[placeOf(stored.Message.Metadata, broker.MetaTopic, broker.MetaPosition)]
	return is && stored.At.Sub(at) <= clocksDiffer
}

// readMarks reads the dead letters and the marks of operators among them, and deletes from the
// inbox the commands that became dead letters. Which tenants were forgotten the database knows,
// too, where the broker has no mark yet or the mark was read before.
func (r *recovery) readMarks(ctx context.Context, p reading) (marks, error) {
	m := marks{make(map[place]time.Time), make(map[timer.TenantID]time.Time), make(map[decisionKey]timer.Decision)}
	after, upTo, _ := p.of(broker.DeadLetter)
	if err := r.history.Read(ctx, broker.DeadLetter, after, upTo, func(batch []broker.Stored) error {
		numbers := make(map[string][]int64)
		for _, d := range batch {
			if !deadletter.Ours(r.routing, d.Message) {
				continue
			}
			at := placeOf(d.Message.Metadata, envelope.HeaderDeadLetterTopic, envelope.HeaderDeadLetterPosition)
			m.dead[at] = d.At
			if log, number, ok := r.history.Place(at.topic, at.position); ok {
				numbers[log] = append(numbers[log], number)
			}
			for _, decision := range deadletter.DecisionsOf(d) {
				m.note(decision)
			}
		}
		return r.leaveInbox(ctx, numbers)
	}); err != nil {
		return m, err
	}
	known, err := r.db.Decisions(ctx)
	for _, d := range known {
		if about := (decisionKey{d.TenantID, d.Kind}); !m.decided[about].At.After(d.At) {
			delete(m.decided, about)
		}
		m.noteForgotten(d)
	}
	return m, err
}

// note notes a decision, unless a later one is known.
func (m *marks) note(d timer.Decision) {
	about := decisionKey{d.TenantID, d.Kind}
	if last, known := m.decided[about]; !known || !d.At.Before(last.At) {
		m.decided[about] = d
	}
	m.noteForgotten(d)
}

func (m *marks) noteForgotten(d timer.Decision) {
	if d.Kind == timer.DecidedForgotten && d.At.After(m.forgotten[d.TenantID]) {
		m.forgotten[d.TenantID] = d.At
	}
}

// replayForgets is how many timers of a tenant are forgotten at once while only the recovery
// uses the database.
const replayForgets = 5000

// decide applies the decisions that are newer than the ones of the database. A tenant counts as
// forgotten only after its timers were deleted.
func (r *recovery) decide(ctx context.Context, m marks) error {
	for _, d := range m.decided {
		if d.Kind == timer.DecidedForgotten {
			if _, err := forget(ctx, r.db, d.TenantID, d.At, replayForgets, 0); err != nil {
				return err
			}
		}
		if err := r.db.Decide(ctx, d); ignore(err, timer.ErrInvalid) != nil { // anyone may have written a mark
			return err
		}
	}
	return nil
}

// forgot reports whether a tenant was forgotten after a time.
func (m *marks) forgot(tenant timer.TenantID, at time.Time) bool {
	until, is := m.forgotten[tenant]
	return is && !at.After(until)
}

// eventsOf returns the events among messages, except those of tenants that were forgotten
// later. A message that the service has not published as an event of its tenant counts as
// absent: a producer can have answers of the broker stored where events are.
func (r *recovery) eventsOf(m marks, batch []broker.Stored) []timer.DueTimeReached {
	events := make([]timer.DueTimeReached, 0, len(batch))
	for _, stored := range batch {
		decoded, err := envelope.Decode(stored.Message.Payload)
		if err != nil {
			continue
		}
		e, ok := timer.EventOf(decoded.Payload)
		get := stored.Message.Metadata.Get
		ok = ok && get(envelope.HeaderType) == envelope.TypeOf(e) && get(broker.MetaTopic) == r.routing.EventsOf(e.TenantID)
		if ok && !m.forgot(e.TenantID, e.ReachedAt) {
			events = append(events, e)
		}
	}
	return events
}
