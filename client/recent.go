package client

import (
	"context"
	"sync"

	"golang.org/x/sync/singleflight"
)

// handledIDs are the latest ids that were handled.
type handledIDs struct {
	most int // ids in each of the maps; none are kept if it is negative

	running singleflight.Group // handlers, by id

	mu          sync.Mutex
	now, before map[string]bool
}

// once calls handle, unless handle returned nil for this id before. While another call runs
// for the same id, once waits for it: if that one fails, neither message may be acked.
func (r *handledIDs) once(ctx context.Context, id string, handle func(ctx context.Context) error) error {
	if r.most < 0 {
		return handle(ctx)
	}
	for mine := false; ; {
		_, err, _ := r.running.Do(id, func() (any, error) {
			mine = true
			if r.has(id) {
				return nil, nil
			}
			err := handle(ctx)
			if err == nil {
				r.add(id)
			}
			return nil, err
		})
		if mine || err == nil {
			return err
		}
	}
}

func (r *handledIDs) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now[id] || r.before[id]
}

func (r *handledIDs) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil || len(r.now) >= r.most {
		r.now, r.before = make(map[string]bool), r.now
	}
	r.now[id] = true
}
