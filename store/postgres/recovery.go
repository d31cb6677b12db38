package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// Advance appends numbers.
func (s *Store) Advance(ctx context.Context, numbers ...timer.Number) error {
	if len(numbers) == 0 {
		return nil
	}
	n := len(numbers)
	brokers, logs, kinds, values := make([]string, n), make([]string, n), make([]string, n), make([]int64, n)
	for i, at := range numbers {
		brokers[i], logs[i], kinds[i], values[i] = at.Broker, at.Log, string(at.Kind), at.Number
	}
	if err := s.verify(ctx); err != nil {
		return classify("write the numbers", err)
	}
	var last int64
	err := s.writing(ctx, "write the numbers", func(_ context.Context, t *transaction) error {
		t.later(step{text: sqlAdvance, args: []any{brokers, logs, kinds, values}, each: store.Scan(&last)})
		return nil
	})
	if err == nil {
		s.advanced.note(numbers)
		s.history.wrote(last)
	}
	return err
}

// advancedNumbers are the numbers that this process has written, without their values, since
// their earlier rows were deleted last.
type advancedNumbers struct {
	mu      sync.Mutex
	written map[timer.Number]bool
}

func (a *advancedNumbers) note(numbers []timer.Number) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.written == nil {
		a.written = make(map[timer.Number]bool)
	}
	for _, n := range numbers {
		n.Number = 0
		a.written[n] = true
	}
}

// take returns the numbers and forgets them.
func (a *advancedNumbers) take() (brokers, logs, kinds []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n := range a.written {
		brokers, logs, kinds = append(brokers, n.Broker), append(logs, n.Log), append(kinds, string(n.Kind))
	}
	a.written = nil
	return brokers, logs, kinds
}

// trim deletes the rows of numbers that later ones have replaced. Instances that write the same
// numbers trim them as well.
func (s *Store) trim(ctx context.Context) error {
	brokers, logs, kinds := s.advanced.take()
	if len(logs) == 0 {
		return nil
	}
	_, err := s.change(ctx, "trim the numbers", sqlTrimNumbers, brokers, logs, kinds)
	return err
}

// These are the results of alone.sql.
const (
	isAlone  = 0
	isShared = 1
)

// Alone runs fn while a lease holds exclusively the lock that running instances share.
// Instances hold it in the transactions of their leases.
func (s *Store) Alone(ctx context.Context, fn func(context.Context) error) error {
	l, err := s.lease(ctx, sqlAlone, "", outbox.Receivers{})
	if err != nil {
		return classify("read the messages that the database lacks", err)
	}
	defer l.Release()
	switch l.number {
	case isShared:
		return nil
	case isAlone:
	default:
		return errVerifying
	}
	alone, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(l.held, func() { end(errNotAlone) })()
	if err = fn(alone); err != nil {
		err = errors.Join(context.Cause(alone), err)
	}
	return err
}

var errVerifying = errors.New("another instance reads the messages that the database lacks")

var errNotAlone = errors.New("the server did not answer for a while: another instance may read the messages that the database lacks")

// Fired brings in events that were published.
func (s *Store) Fired(ctx context.Context, keep time.Duration, events ...timer.DueTimeReached) (changed int, err error) {
	return store.Fired(ctx, s.opt.Log, keep, events, func(a *store.Application, ids []string, first, end int) error {
		return s.repeat(func() error {
			return s.writing(ctx, a.Doing, func(ctx context.Context, t *transaction) error {
				if err := t.apply(ctx, a, first, end); err != nil {
					return err
				}
				t.later(step{text: sqlFiredOutbox, args: []any{ids}})
				return nil
			})
		})
	})
}
