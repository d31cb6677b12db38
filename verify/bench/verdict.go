package bench

import (
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// A ChaosResult says what became of the timers of a run of [Chaos].
type ChaosResult struct {
	Fault     Fault
	Timers    int           // that were scheduled
	Lost      int           // timers that did not fire
	Early     int           // events that the broker had before the due time
	SecondIDs int           // events of a timer that had one under another id
	Repeated  int           // publishes of an event that was published before
	P99       float64       // of the lateness while faults were injected, in milliseconds
	Clean     time.Duration // from the end of the last fault until timers were on time again
	IsClean   bool          // whether they were, before no more timers were scheduled
}

// Broken reports whether a promise was broken.
func (r ChaosResult) Broken() bool { return r.Lost > 0 || r.Early > 0 || r.SecondIDs > 0 }

// ChaosHeader is the head of the table of [ChaosResult.MarkdownRow].
const ChaosHeader = `| fault | timers | lost | early | second ids | repeated | lateness p99, ms | seconds to clean |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |`

// MarkdownRow returns a row of the table of the documentation.
func (r ChaosResult) MarkdownRow() string {
	clean := fmt.Sprintf("not in %.0f", aftermath.Seconds())
	if r.IsClean {
		clean = fmt.Sprintf("%.1f", r.Clean.Seconds())
	}
	return fmt.Sprintf("| `%s` | %d | %d | %d | %d | %d | %.1f | %s |",
		r.Fault, r.Timers, r.Lost, r.Early, r.SecondIDs, r.Repeated, r.P99, clean)
}

// A scheduled timer is one whose command the broker has accepted.
type scheduled struct {
	key           timer.Key
	due, accepted time.Time
}

// A shot is what became of a timer.
type shot struct {
	expected time.Time // when it was due, or its command was accepted if that was later
	fired    time.Time // when the broker had its first event; zero if it never had
}

// isLate reports whether the timer fired later than the limit, or did not fire.
func (s shot) isLate(limit time.Duration) bool {
	return s.fired.IsZero() || s.fired.After(s.expected.Add(limit))
}

// judgeChaos counts what became of timers. It returns an error if the history has
// a message that is no event of any of them.
func judgeChaos(all []scheduled, h history.History) (r ChaosResult, shots []shot, err error) {
	r.Timers = len(all)
	number := make(map[timer.Key]int, len(all))
	shots = make([]shot, len(all))
	for n, s := range all {
		number[s.key] = n
		if shots[n].expected = s.due; s.accepted.After(s.due) {
			shots[n].expected = s.accepted
		}
	}
	kept := make(map[string]int, len(all)) // events, by id
	fired := make(map[timer.Key]bool, len(all))
	for _, m := range h.Messages {
		decoded, err := envelope.Decode(m.Body)
		e, ok := decoded.Payload.(timer.DueTimeReached)
		n, asked := number[e.Key]
		if err != nil || !ok || !asked {
			return r, nil, fmt.Errorf("void: a message on %s is no event of a timer that was scheduled: %.500s", m.Topic, m.Body)
		}
		if m.At.Before(all[n].due) {
			r.Early++
		}
		if kept[e.ID]++; kept[e.ID] > 1 {
			continue
		}
		if fired[e.Key] {
			r.SecondIDs++
			continue
		}
		fired[e.Key], shots[n].fired = true, m.At
	}
	for id, n := range kept { // what the broker dropped as a duplicate was published, too
		r.Repeated += max(n, h.Attempts[id].Published) - 1
	}
	r.Lost = len(all) - len(fired)
	return r, shots, nil
}

// p99 returns how late 99 % of the timers of a window were at most that fired, in
// milliseconds.
func p99(shots []shot, in window) float64 {
	var late []time.Duration
	for _, s := range shots {
		if in.holds(s.expected) && !s.fired.IsZero() {
			late = append(late, max(0, s.fired.Sub(s.expected)))
		}
	}
	return history.NewLateness(late).P99MS
}

const (
	cleanStep   = 100 * time.Millisecond
	cleanWindow = time.Second
)

// clean returns how long after an instant timers were on time again: when none
// was overdue by more than the limit, and of those of the second that followed
// 99 % were not later than that.
func clean(shots []shot, over time.Time, limit time.Duration) (after time.Duration, ok bool) {
	var end time.Time
	for _, s := range shots {
		if s.expected.After(end) {
			end = s.expected
		}
	}
	for at := over; at.Add(cleanWindow).Before(end); at = at.Add(cleanStep) {
		if isClean(shots, at, limit) {
			return at.Sub(over), true
		}
	}
	return 0, false
}

func isClean(shots []shot, at time.Time, limit time.Duration) bool {
	next, late := 0, 0
	for _, s := range shots {
		overdue := s.fired.IsZero() || s.fired.After(at)
		if overdue && at.After(s.expected.Add(limit)) {
			return false
		}
		if (window{at, at.Add(cleanWindow)}).holds(s.expected) {
			next++
			if s.isLate(limit) {
				late++
			}
		}
	}
	return next > 0 && late*100 <= next
}
