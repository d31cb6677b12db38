package store

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/event-service-agent/timer-service/timer"
)

// Positions are what the transactions of this process note, see [timer.Recoverer].
// The zero value notes nothing.
type Positions struct {
	now atomic.Pointer[func() []timer.Position]

	mu       sync.Mutex
	noted    map[string]timer.Position // by this process, or found by it, by log
	replaced int                       // how often all were
}

// A Rise is a position that is higher than what this process has noted before.
type Rise struct {
	timer.Position
	Before timer.Position // what it has noted; zero if nothing
}

// Track sets the function that returns positions.
func (p *Positions) Track(now func() []timer.Position) { p.now.Store(&now) }

// Now returns the positions at this moment.
func (p *Positions) Now() []timer.Position {
	if now := p.now.Load(); now != nil {
		return (*now)()
	}
	return nil
}

// Risen returns which of positions are higher than what was noted, sorted by log, so
// that two transactions write them in the same order.
func (p *Positions) Risen(positions []timer.Position) (risen []Rise) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range positions {
		before := p.noted[at.Log]
		if at.Done > before.Done || at.Seen > before.Seen {
			risen = append(risen, Rise{Position: higher(before, at), Before: before})
		}
	}
	slices.SortFunc(risen, func(a, b Rise) int { return strings.Compare(a.Log, b.Log) })
	return risen
}

// Noted says that positions were committed.
func (p *Positions) Noted(risen []Rise) {
	if len(risen) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noted == nil {
		p.noted = make(map[string]timer.Position)
	}
	for _, r := range risen {
		p.noted[r.Log] = higher(p.noted[r.Log], r.Position)
	}
}

// Replace says that positions were committed in place of all others.
func (p *Positions) Replace(all []Rise) {
	p.mu.Lock()
	p.noted = nil
	p.replaced++
	p.mu.Unlock()
	p.Noted(all)
}

// Compare returns what is to be called with the positions that are in the database, which
// are read after Compare was called. It reports whether one is lower than what this process
// has noted or found there before, so that the database is older than it was. If not, what
// is there counts as noted.
func (p *Positions) Compare() (found func([]timer.Position) (older bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, replaced := maps.Clone(p.noted), p.replaced
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
			if now[log].Done < at.Done || now[log].Seen < at.Seen {
				return true
			}
		}
		if p.noted == nil {
			p.noted = make(map[string]timer.Position)
		}
		for log, at := range now {
			p.noted[log] = higher(p.noted[log], at)
		}
		return false
	}
}

func higher(a, b timer.Position) timer.Position {
	return timer.Position{Log: b.Log, Done: max(a.Done, b.Done), Seen: max(a.Seen, b.Seen)}
}

// Rises returns positions as they are noted where there are none.
func Rises(positions []timer.Position) []Rise {
	return new(Positions).Risen(positions)
}
