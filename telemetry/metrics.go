package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

var (
	// short are the bounds of polls and commits, in seconds.
	short = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}
	// many are the bounds of how many there were at once.
	many = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000}
)

// bg is the context of measurements: none belongs to a trace.
var bg = context.Background()

// instruments count what happens once a batch. What happens once a timer is counted
// by [app.Counters] and [histogram], which are cheaper.
type instruments struct {
	began                      time.Time
	reached, published         histogram
	lateFired, latePublished   metric.Float64Histogram // instead of these, of a host's provider; else nil
	polling, committing        metric.Float64Histogram
	fired, committed           metric.Int64Histogram
	worked, failed, unlabelled metric.MeasurementOption
}

func newInstruments() *instruments {
	return &instruments{
		began:      time.Now(),
		reached:    histogram{name: "timer.lateness.reached", about: "From the due time of a timer until it fired."},
		published:  histogram{name: "timer.lateness.published", about: "From the due time of a timer until the broker acked its event: how late consumers get it."},
		worked:     label("error", "false"),
		failed:     label("error", "true"),
		unlabelled: metric.WithAttributeSet(*attribute.EmptySet()),
	}
}

// create makes the instruments that a meter has.
func (m *instruments) create(meter metric.Meter) error {
	var errs []error
	seconds := func(to *metric.Float64Histogram, name, about string) {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(short...))
		*to, errs = h, append(errs, err)
	}
	numbers := func(to *metric.Int64Histogram, name, unit, about string) {
		h, err := meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(many...))
		*to, errs = h, append(errs, err)
	}
	seconds(&m.polling, "timer.polling.duration", "What a poll of the database took, with what it fired.")
	seconds(&m.committing, "timer.commit.duration", "What a commit of commands took.")
	numbers(&m.fired, "timer.batch.size", "{timer}", "Timers that fired in one transaction.")
	numbers(&m.committed, "timer.commit.size", "{command}", "Commands that were committed together.")
	return errors.Join(errs...)
}

// createLateness makes the histograms of lateness at a host's provider. At our own a
// [histogram] takes their place.
func (m *instruments) createLateness(meter metric.Meter) error {
	var errs [2]error
	m.lateFired, errs[0] = meter.Float64Histogram(m.reached.name, metric.WithUnit("s"), metric.WithDescription(m.reached.about), metric.WithExplicitBucketBoundaries(bounds...))
	m.latePublished, errs[1] = meter.Float64Histogram(m.published.name, metric.WithUnit("s"), metric.WithDescription(m.published.about), metric.WithExplicitBucketBoundaries(bounds...))
	return errors.Join(errs[:]...)
}

// late counts how late events are; of returns that of the n-th, or false for one that is
// not known.
func (m *instruments) late(h *histogram, to metric.Float64Histogram, n int, of func(int) (time.Duration, bool)) {
	if to == nil {
		h.add(n, of)
		return
	}
	for i := range n {
		if d, ok := of(i); ok {
			to.Record(bg, max(0, d).Seconds(), m.unlabelled)
		}
	}
}

// hooks returns what an app calls.
func (m *instruments) hooks() app.Hooks {
	return app.Hooks{
		Committed: func(commands int, took time.Duration, err error) {
			m.committing.Record(bg, took.Seconds(), m.outcome(err))
			m.committed.Record(bg, int64(commands), m.unlabelled)
		},
		Polled: func(took time.Duration, err error) { m.polling.Record(bg, took.Seconds(), m.outcome(err)) },
		Reached: func(events []timer.DueTimeReached) {
			m.fired.Record(bg, int64(len(events)), m.unlabelled)
			m.late(&m.reached, m.lateFired, len(events), func(i int) (time.Duration, bool) { return events[i].Lateness(), true })
		},
		Published: func(at time.Time, events []*message.Message) {
			m.late(&m.published, m.latePublished, len(events), func(i int) (time.Duration, bool) {
				due, ok := envelope.DueAt(events[i].UUID)
				return at.Sub(due), ok
			})
		},
	}
}

func (m *instruments) outcome(err error) metric.MeasurementOption {
	if err != nil {
		return m.failed
	}
	return m.worked
}

// Produce returns the histograms of lateness.
func (m *instruments) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	now := time.Now()
	return []metricdata.ScopeMetrics{{
		Scope:   instrumentation.Scope{Name: scope},
		Metrics: append(m.reached.produce(m.began, now), m.published.produce(m.began, now)...),
	}}, nil
}

// label returns a name and its value, and more of them, as they are recorded.
func label(pairs ...string) metric.MeasurementOption {
	var set []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		set = append(set, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributeSet(attribute.NewSet(set...))
}
