package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	markTimeout = 3 * time.Second // how long an operator waits for the broker
	markRetry   = 5 * time.Second // between two tries to publish marks
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

// publish publishes the marks that are missing at the broker.
func (m *markPublisher) publish(ctx context.Context) error {
	decisions, err := m.operator.Decisions(ctx)
	for _, d := range decisions {
		if d.Published || err != nil {
			continue
		}
		if err = deadletter.Leave(ctx, m.broker, d); err == nil {
			err = m.operator.MarkPublished(ctx, d)
		}
	}
	return err
}
