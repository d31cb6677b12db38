package client

import (
	"cmp"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/timer"
)

// NewVersion returns the version of a command that is made now. Of two that were made
// with one now, in this process, the later one is newer: ids only grow.
func NewVersion(now time.Time) timer.Version { return version(timer.Version{}, now) }

// version returns v, completed by [NewVersion].
func version(v timer.Version, now time.Time) timer.Version {
	v.TimestampMS = cmp.Or(v.TimestampMS, now.UnixMilli())
	if v.CommandID == "" {
		v.CommandID = uuid.Must(uuid.NewV7()).String()
	}
	return v
}

// maxStep is by how much a clock may be set back that does not set versions back.
const maxStep = time.Minute

// Versions makes the versions of the commands of one part of a program. Each version is newer
// than the ones before, even if the clock was set back by less than a minute. So a Cancel is
// never older than the Schedule before it. The zero value is ready to use,
// also concurrently.
type Versions struct {
	mu   sync.Mutex
	last int64 // timestampMs of the newest one
}

// Complete returns v with a timestamp and an id, if it lacks them, for a command that is made
// now.
func (s *Versions) Complete(v timer.Version, now time.Time) timer.Version {
	if v.TimestampMS == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ms := now.UnixMilli(); ms > s.last || s.last-ms > maxStep.Milliseconds() {
			s.last = ms
		}
		v.TimestampMS = s.last
	}
	return version(v, now)
}
