package store

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/event-service-agent/timer-service/timer"
)

// Positions are the positions in the broker's logs that the transactions of this process
// note, see [timer.Recoverer]. The zero value notes nothing.
type Positions struct {
	current atomic.Pointer[func() []timer.Position]

	mu        sync.Mutex
	committed map[string]timer.Position // by log: what this process has committed, or has found in the database
	replaced  int                       // how often all of them were replaced
}

// An Advance is a position that is ahead of what this process has committed before.
type Advance struct {
	timer.Position
	Before timer.Position // what this process has committed; zero if nothing
}

// SetCurrent sets the function that returns the positions of the moment.
func (p *Positions) SetCurrent(current func() []timer.Position) { p.current.Store(&current) }

// Current returns the positions of this moment.
func (p *Positions) Current() []timer.Position {
	if current := p.current.Load(); current != nil {
		return (*current)()
	}
	return nil
}

// Advances returns the positions that are ahead of the committed ones, or whose log has no
// committed one. They are sorted by log, so that two transactions write them in the same
// order.
func (p *Positions) Advances(positions []timer.Position) (advances []Advance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range positions {
		before, known := p.committed[at.Log]
		if !known || at.Committed > before.Committed || at.Observed > before.Observed {
			advances = append(advances, Advance{Position: higher(before, at), Before: before})
		}
	}
	slices.SortFunc(advances, func(a, b Advance) int { return strings.Compare(a.Log, b.Log) })
	return advances
}

// Commit remembers that advances were committed.
func (p *Positions) Commit(advances []Advance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range advances {
		p.remember(a.Position)
	}
}

// remember takes a position for committed. The lock must be held.
func (p *Positions) remember(at timer.Position) {
	if p.committed == nil {
		p.committed = make(map[string]timer.Position)
	}
	p.committed[at.Log] = higher(p.committed[at.Log], at)
}

// All returns the positions that were committed, or found in the database, sorted by log.
func (p *Positions) All() []timer.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Values(p.committed), func(a, b timer.Position) int { return strings.Compare(a.Log, b.Log) })
}

// Replace remembers that positions were committed in place of all others.
func (p *Positions) Replace(all []Advance) {
	p.mu.Lock()
	p.committed = nil
	p.replaced++
	p.mu.Unlock()
	p.Commit(all)
}

// Compare returns a function that takes the positions of the database, which are to be read
// after Compare was called. It reports whether one of them is behind what this process has
// committed, or has found there before: then the database is older than it was. If it is
// not, the process remembers what it has found.
func (p *Positions) Compare() (found func([]timer.Position) (older bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, replaced := maps.Clone(p.committed), p.replaced
	return func(there []timer.Position) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.replaced != replaced {
			return false
		}
		now := make(map[string]timer.Position, len(there))
		for _, at := range there {
			now[at.Log] = at
		}
		for log, at := range before {
			if now[log].Committed < at.Committed || now[log].Observed < at.Observed {
				return true
			}
		}
		for _, at := range there {
			p.remember(at)
		}
		return false
	}
}

func higher(a, b timer.Position) timer.Position {
	return timer.Position{Log: b.Log, Committed: max(a.Committed, b.Committed), Observed: max(a.Observed, b.Observed)}
}
