package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A window is a time in which timers are due.
type window struct{ from, until time.Time }

// from is a window without an end.
func from(t time.Time) window { return window{from: t} }

func (w window) holds(due time.Time) bool {
	return !due.Before(w.from) && (w.until.IsZero() || due.Before(w.until))
}

// judge returns how late the timers fired that were due in a window. It returns
// an error unless each of all commands had its event once and not early.
func (k *sink) judge(commands []timer.ScheduleTimer, in window) (*Lateness, error) {
	all, err := k.judgeEach(commands, in)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// judgeEach is judge for several windows.
func (k *sink) judgeEach(commands []timer.ScheduleTimer, in ...window) ([]*Lateness, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	due := make(map[timer.Key]time.Time, len(commands))
	for _, c := range commands {
		due[c.Key] = timer.RoundUp(c.DueAt)
	}
	late := make([]histogram, len(in))
	early, strange := 0, 0
	for _, a := range k.came {
		decoded, err := envelope.Decode(a.message.Payload)
		e, ok := decoded.Payload.(timer.DueTimeReached)
		at, asked := due[e.Key]
		if err != nil || !ok || !asked {
			strange++
			continue
		}
		delete(due, e.Key)
		if a.at.Before(at) {
			early++
		}
		for n, w := range in {
			if w.holds(at) {
				late[n].add(a.at.Sub(at))
			}
		}
	}
	if len(due) > 0 || early > 0 || strange > 0 || k.extra > 0 {
		return nil, fmt.Errorf("void: of %d timers %d did not fire, %d fired early; %d events came again, %d belong to no command",
			len(commands), len(due), early, k.extra, strange)
	}
	all := make([]*Lateness, len(in))
	for n := range in {
		all[n] = late[n].lateness()
	}
	return all, nil
}

// judgePeer returns how late that was which a peer delivered, and which was due from then on; what says no due
// time was due then. It returns an error if anything came early, or again.
func (k *sink) judgePeer(since time.Time) (*Lateness, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var late histogram
	for _, a := range k.came {
		due := a.due
		if due.IsZero() {
			due = since
		}
		if a.at.Before(due) {
			return nil, errors.New("void: a timer of the peer came early")
		}
		if from(since).holds(due) {
			late.add(a.at.Sub(due))
		}
	}
	if k.extra > 0 {
		return nil, fmt.Errorf("void: %d timers of the peer came again", k.extra)
	}
	return late.lateness(), nil
}

const maxLateness = int64(10 * time.Minute / time.Microsecond)

// A histogram counts durations, in microseconds.
type histogram struct{ *hdrhistogram.Histogram }

func (h *histogram) add(d time.Duration) {
	if h.Histogram == nil {
		h.Histogram = hdrhistogram.New(1, maxLateness, 3)
	}
	_ = h.RecordValue(min(max(d.Microseconds(), 1), maxLateness)) // within its limits
}

// at returns the milliseconds of a quantile, in percent.
func (h *histogram) at(percent float64) float64 { return float64(h.ValueAtQuantile(percent)) / 1000 }

// lateness returns the lateness of the durations in it; nil if there are none.
func (h *histogram) lateness() *Lateness {
	if h.Histogram == nil {
		return nil
	}
	return &Lateness{P50: h.at(50), P99: h.at(99), Max: float64(h.Max()) / 1000}
}
