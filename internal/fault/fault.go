// Package fault makes stores and publishers fail on purpose, in tests. A call
// fails before it takes effect, or after: "done, but reported as failed" is
// the failure that real databases and brokers are best at.
package fault

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// ErrInjected is what every injected failure wraps.
var ErrInjected = errors.New("injected failure")

// A Kind says how a call fails.
type Kind int

// Kinds of failure.
const (
	None   Kind = iota // the call goes through
	Before             // the call fails and has no effect
	After              // the call takes effect and is reported as failed
)

// A Decide chooses how the next call of an operation, such as "schedule" or
// "publish", fails. It is called from many goroutines.
type Decide func(op string) Kind

// call runs do as the decision has it.
func (d Decide) call(op string, do func() error) error {
	kind := None
	if d != nil {
		kind = d(op)
	}
	if kind == Before {
		return ErrInjected
	}
	if err := do(); err != nil {
		return err
	}
	if kind == After {
		return ErrInjected
	}
	return nil
}

// A Full is all that a store implements.
type Full interface {
	timer.Store
	timer.Reader
	timer.Purger
	outbox.Table
}

// A Store is a store whose calls fail as Decide has it. Looks for people
// (Reader) never do.
type Store struct {
	Full
	Decide Decide
}

// Schedule fails as "schedule".
func (s *Store) Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) (outcomes []timer.Outcome, err error) {
	err = s.Decide.call("schedule", func() (err error) {
		outcomes, err = s.Full.Schedule(ctx, now, commands...)
		return err
	})
	return outcomes, err
}

// Cancel fails as "cancel".
func (s *Store) Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) (outcomes []timer.Outcome, err error) {
	err = s.Decide.call("cancel", func() (err error) {
		outcomes, err = s.Full.Cancel(ctx, now, commands...)
		return err
	})
	return outcomes, err
}

// Update fails as "update", after its commit or before it began.
func (s *Store) Update(ctx context.Context, fn func(timer.Tx) error) error {
	return s.Decide.call("update", func() error { return s.Full.Update(ctx, fn) })
}

// NextDue fails as "next_due".
func (s *Store) NextDue(ctx context.Context) (due time.Time, err error) {
	err = s.Decide.call("next_due", func() (err error) {
		due, err = s.Full.NextDue(ctx)
		return err
	})
	return due, err
}

// Head fails as "head".
func (s *Store) Head(ctx context.Context, after int64, limit int) (rows []outbox.Row, err error) {
	err = s.Decide.call("head", func() (err error) {
		rows, err = s.Full.Head(ctx, after, limit)
		return err
	})
	return rows, err
}

// Delete fails as "delete".
func (s *Store) Delete(ctx context.Context, seqs ...int64) error {
	return s.Decide.call("delete", func() error { return s.Full.Delete(ctx, seqs...) })
}

// Purge fails as "purge".
func (s *Store) Purge(ctx context.Context, before time.Time, cursor int64, limit int) (deleted int, next int64, err error) {
	err = s.Decide.call("purge", func() (err error) {
		deleted, next, err = s.Full.Purge(ctx, before, cursor, limit)
		return err
	})
	return deleted, next, err
}

// A Publisher is a publisher whose Publish fails as "publish".
type Publisher struct {
	message.Publisher
	Decide Decide
}

// Publish fails as "publish".
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	return p.Decide.call("publish", func() error { return p.Publisher.Publish(topic, messages...) })
}
