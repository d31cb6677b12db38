package outbox

import (
	"errors"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/retry"
)

// silentFor is how long the head publishes nothing to a topic after a publish that timed out.
// An answer ends that time earlier, and another timeout begins it anew.
const silentFor = 30 * time.Second

// A destination is a topic of the broker, or a partition that fails alone. The zero value works.
type destination struct {
	failures int       // publishes in a row of which it took nothing
	next     time.Time // when its deferred rows are tried again
	silent   time.Time // when a publish to it timed out
	busy     bool      // its deferred rows are being published
}

// rests reports whether it is left alone after a failure. The clock may have been set back.
func (d destination) rests(now time.Time) bool {
	return d.next.After(now) && d.next.Sub(now) <= retry.Publish.Longest
}

// Destinations remembers each destination that fails, or whose deferred rows are being
// published. Nothing is kept of one that works.
type destinations struct {
	mu     sync.Mutex
	byName map[string]destination
}

// get returns a destination.
func (ds *destinations) get(name string) destination {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.byName[name]
}

// fail reports whether a destination fails.
func (ds *destinations) fail() bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, d := range ds.byName {
		if d.failures > 0 {
			return true
		}
	}
	return false
}

// change changes a destination.
func (ds *destinations) change(name string, change func(*destination)) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.byName[name]
	if change(&d); d == (destination{}) {
		delete(ds.byName, name)
		return
	}
	ds.byName[name] = d
}

// note notes the results of a publish. A destination that took one of the rows works. It reports
// whether one did that had failed.
func (ds *destinations) note(now time.Time, timedOut bool, rows []Row, messages []broker.Message, errs []error) (again bool) {
	for i, err := range errs {
		if err == nil || errors.Is(err, broker.ErrRefused) || errors.Is(err, broker.ErrUnavailable) {
			continue
		}
		ds.change(failedAt(messages[i].Topic, err), func(d *destination) {
			if !d.rests(now) { // otherwise a row has failed before
				d.failures++
				d.next = now.Add(retry.Publish.After(d.failures))
			}
			if timedOut {
				d.silent = now
			}
		})
	}
	works := func(d *destination) {
		again = again || d.failures > 0
		*d = destination{busy: d.busy}
	}
	for i, err := range errs {
		if err == nil {
			ds.change(messages[i].Topic, works)
			ds.change(rows[i].Destination, works)
		}
	}
	return again
}
