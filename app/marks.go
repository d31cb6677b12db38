package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	markTimeout  = 3 * time.Second  // how long an operator waits for the broker
	leaveTimeout = 10 * time.Second // how long the broker may take
	markRetry    = 5 * time.Second  // between two tries to publish marks
)

// A markPublisher leaves a mark at the broker for each decision of an operator, from where a
// recovery of a lost database reads it. A decision whose mark can't be published, since the
// broker is away, counts all the same: its mark is published later, by this instance or by the
// next one that starts.
type markPublisher struct {
	operator timer.Operator
	broker   deadletter.Broker
	log      *slog.Logger
	failed   chan struct{} // of capacity 1
}

// run publishes the marks that are missing at the start, and the marks that could not be published
// while it runs. While none is missing it does nothing.
func (m *markPublisher) run(ctx context.Context) error {
	for logged := false; ; {
		switch err := m.publish(ctx); {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			logged = false
			select {
			case <-m.failed:
			case <-ctx.Done():
				return nil
			}
		case errors.Is(err, timer.ErrFatal):
			return err
		case !logged:
			m.log.WarnContext(ctx, "the broker does not know all decisions of operators, will retry: a database that is lost now would be recovered without them", "error", err)
			logged = true
		}
		if !pause.For(ctx, markRetry) {
			return nil
		}
	}
}

// publishNow publishes marks if the broker is there. Otherwise run does it later.
func (m *markPublisher) publishNow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	if m.publish(ctx) != nil {
		select {
		case m.failed <- struct{}{}:
		default:
		}
	}
}

// publish publishes the marks that are missing at the broker. One whose topic fails keeps no other
// waiting for longer than a limit.
func (m *markPublisher) publish(ctx context.Context) error {
	missing, err := m.operator.Decisions(ctx)
	if err != nil {
		return err
	}
	missing = slices.DeleteFunc(missing, func(d timer.Decision) bool { return d.Published })
	leaving, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	results := deadletter.Leave(leaving, m.broker, missing...)
	for i, d := range missing {
		if results[i] == nil {
			results[i] = m.operator.MarkPublished(ctx, d)
		}
	}
	return cmp.Or(results...) // the first, since there may be thousands
}
