package admin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	sampleInterval = 5 * time.Second
	recent         = 5 * time.Minute
	maxSamples     = int(recent/sampleInterval) + 1
)

// A sample says how late and how busy the service was at a time.
type sample struct {
	at       time.Time
	late     app.Lateness  // of all events since the start
	worst    time.Duration // of the events that the broker acked since the sample before
	waiting  time.Duration // how late the oldest is that is overdue, or whose event waits for the broker
	accepted int64         // commands that had an effect, since the start
	refused  int64         // commands that became dead letters, since the start
	fired    int64         // timers, since the start
}

// A History says how late and how busy the service was in the last five minutes. It is kept in
// memory. Make one with [NewHistory]. Its methods are safe for concurrent use.
type History struct {
	counters *app.Counters
	stats    func(context.Context, timer.TenantID) (timer.Stats, error)

	mu      sync.Mutex
	samples []sample      // oldest first
	worst   time.Duration // since the last sample
	// Earliest due time of the events that had not reached the broker at the last sample. It
	// may lie ahead; it is zero if there was none.
	oldest time.Time
}

// NewHistory returns a History of the counters, and of the events that have not reached the
// broker yet, which stats counts, such as [timer.Reader.Stats]. It starts nothing: call
// [History.Run].
func NewHistory(counters *app.Counters, stats func(context.Context, timer.TenantID) (timer.Stats, error)) *History {
	return &History{counters: counters, stats: stats}
}

// Run takes samples until ctx is done, and returns nil. It reads the database once in five
// seconds, or more rarely if that takes long, and writes nothing.
func (h *History) Run(ctx context.Context) error {
	for {
		began := time.Now()
		reading, cancel := context.WithTimeout(ctx, time.Second)
		stats, err := h.stats(reading, "")
		cancel()
		h.keep(time.Now(), stats, err)
		if !pause.For(ctx, pause.Rest(time.Since(began), sampleInterval)) {
			return nil
		}
	}
}

// keep adds a sample of now.
func (h *History) keep(now time.Time, stats timer.Stats, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.samples = append(h.samples, h.sample(now, stats, err))
	h.samples = h.samples[max(0, len(h.samples)-maxSamples):]
	h.worst = 0
}

// until returns the samples so far, oldest first, followed by one of now.
func (h *History) until(now time.Time, stats timer.Stats, err error) []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.sample(now, stats, err)
	return append(slices.Clone(h.samples), last)
}

// sample returns a sample of now. If the database does not answer, the sample assumes that
// the timers of the last answer still wait. The caller holds mu until it has kept the sample,
// because another sample in between would take the worst lateness of the interval.
func (h *History) sample(now time.Time, stats timer.Stats, err error) sample {
	if err == nil {
		h.oldest = earliest(stats.NextDue, stats.DueAt)
	}
	h.worst = max(h.worst, h.counters.TakeWorst())
	s := sample{at: now, late: h.counters.Lateness(), worst: h.worst, fired: h.counters.Reached()}
	s.accepted, s.refused = accepted(h.counters)
	if !h.oldest.IsZero() {
		s.waiting = max(0, now.Sub(h.oldest))
	}
	return s
}

// within returns the samples of the last time d, and the one before them.
func within(samples []sample, d time.Duration) []sample {
	from := samples[len(samples)-1].at.Add(-d)
	first, _ := slices.BinarySearchFunc(samples, from, func(s sample, t time.Time) int { return s.at.Compare(t) })
	return samples[max(0, first-1):]
}

// lateness returns how late events were from the first sample to the last. The waiting timers
// count too, each as if it were as late as the oldest of them.
func lateness(samples []sample, waiting int64) app.Lateness {
	first, last := samples[0], samples[len(samples)-1]
	l := last.late
	l.Events -= first.late.Events
	l.Sum -= first.late.Sum
	l.Missed -= first.late.Missed
	l.Max = last.waiting
	for i := range l.Buckets {
		l.Buckets[i] -= first.late.Buckets[i]
	}
	for _, s := range samples[1:] {
		l.Max = max(l.Max, s.worst)
	}
	if last.waiting > 0 {
		i, _ := slices.BinarySearch(app.LatenessBounds(), last.waiting)
		l.Buckets[i] += waiting
		l.Events += waiting
	}
	return l
}

// refused returns how many commands became dead letters since the start, as far as that is counted.
func (h *History) refused() int64 {
	if h == nil {
		return 0
	}
	_, n := accepted(h.counters)
	return n
}

// accepted returns how many commands had an effect, and refused how many became dead letters.
func accepted(c *app.Counters) (accepted, refused int64) {
	for result, count := range c.Commands() {
		switch result.Outcome {
		case handlers.OutcomeInvalid:
			refused += count
		case handlers.OutcomeIgnored, handlers.OutcomeOverQuota, handlers.OutcomeFailed:
		default:
			accepted += count
		}
	}
	return accepted, refused
}

// earliest returns the earlier of two times. Zero is no time.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
