package postgres

import (
	"context"
	"time"
)

// CheckRunning is one check of [Store.Watch].
func CheckRunning(ctx context.Context, s *Store) error {
	_, err := s.check(ctx)
	return err
}

// Trim is one call of trim that [Store.Watch] makes.
func (s *Store) Trim(ctx context.Context) error { return s.trim(ctx) }

// A Chronicle is what a store remembers of its server.
type Chronicle struct {
	Started  time.Time
	Cluster  int64
	Timeline string
	Position int64
}

// Remember changes what a store remembers.
func (s *Store) Remember(change func(*Chronicle)) {
	h := &s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	c := Chronicle{h.last.started, h.last.cluster, h.last.timeline, h.last.position}
	change(&c)
	h.last = &chronicle{c.Started, c.Cluster, c.Timeline, c.Position, h.last.written}
	h.started.Store(&c.Started)
}
