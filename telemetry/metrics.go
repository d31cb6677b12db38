package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

var (
	// short are the bounds of polls and commits, in seconds.
	short = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}
	// many are the bounds of counts of things that happen at once.
	many = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000}
)

// bg is the context of measurements, which belong to no trace.
var bg = context.Background()

// bounds are the bounds of lateness, in seconds.
var bounds = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 3600}

// instruments count events.
type instruments struct {
	reached, published         metric.Float64Histogram // lateness
	polling, committing        metric.Float64Histogram
	fired, committed           metric.Int64Histogram
	worked, failed, unlabelled metric.MeasurementOption
	held                       func() map[timer.TenantID]time.Time // tenants whose events are late by their own limit
}

// newInstruments creates the instruments with a meter.
func newInstruments(meter metric.Meter, counters *app.Counters) (*instruments, error) {
	m := &instruments{held: counters.Held, worked: label("error", "false"), failed: label("error", "true"), unlabelled: metric.WithAttributeSet(*attribute.EmptySet())}
	var errs []error
	seconds := func(name, about string, bounds []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	numbers := func(name, unit, about string) metric.Int64Histogram {
		h, err := meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(many...))
		errs = append(errs, err)
		return h
	}
	m.reached = seconds("timer.lateness.reached", "From the due time of a timer until it fired.", bounds)
	m.published = seconds("timer.lateness.published", "From the due time of a timer until the broker acked its event: how late consumers get it.", bounds)
	m.polling = seconds("timer.polling.duration", "How long a poll of the database took, with the timers that it fired.", short)
	m.committing = seconds("timer.commit.duration", "Duration of a commit of commands.", short)
	m.fired = numbers("timer.batch.size", "{timer}", "Timers that fired or expired in one transaction.")
	m.committed = numbers("timer.commit.size", "{command}", "Commands that were committed together.")
	return m, errors.Join(errs...)
}

// late records how late an event is.
func (m *instruments) late(h metric.Float64Histogram, by time.Duration) {
	h.Record(bg, max(0, by).Seconds(), m.unlabelled)
}

// hooks returns the hooks for an app.
func (m *instruments) hooks() app.Hooks {
	return app.Hooks{
		Committed: func(commands int, took time.Duration, err error) {
			m.committing.Record(bg, took.Seconds(), m.outcome(err))
			m.committed.Record(bg, int64(commands), m.unlabelled)
		},
		Polled: func(took time.Duration, err error) { m.polling.Record(bg, took.Seconds(), m.outcome(err)) },
		Reached: func(events []timer.DueTimeReached) {
			m.fired.Record(bg, int64(len(events)), m.unlabelled)
			held := m.held()
			for i := range events {
				if _, own := held[events[i].TenantID]; !own && events[i].State() == timer.Reached {
					m.late(m.reached, events[i].Lateness())
				}
			}
		},
		Published: func(at time.Time, events []*message.Message) {
			held := m.held()
			for _, e := range events {
				due, counts := outbox.DueAt(e)
				if _, own := held[timer.TenantID(e.Metadata.Get(envelope.HeaderTenantID))]; counts && !own {
					m.late(m.published, at.Sub(due))
				}
			}
		},
	}
}

func (m *instruments) outcome(err error) metric.MeasurementOption {
	if err != nil {
		return m.failed
	}
	return m.worked
}

// label returns labels, given as pairs of a name and a value, in the form in which they are
// recorded.
func label(pairs ...string) metric.MeasurementOption {
	var set []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		set = append(set, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributeSet(attribute.NewSet(set...))
}
