package handlers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Pauses between two tries while the store is down.
const (
	minHold = 100 * time.Millisecond
	maxHold = 5 * time.Second
)

// A hold keeps messages waiting while the store is down. After each pause it
// lets one through to try; when that succeeds it lets all go.
type hold struct {
	down  atomic.Bool
	probe chan struct{} // a permit to try; holds one

	mu    sync.Mutex
	back  chan struct{} // closed when the store is back; nil while it is up
	pause time.Duration // the last one; zero while the store is up
	timer *time.Timer   // hands out the next permit
}

// wait returns true when the caller may try, false if stop ended before.
func (h *hold) wait(stop context.Context) bool {
	if !h.down.Load() {
		return true
	}
	h.mu.Lock()
	back := h.back
	h.mu.Unlock()
	if back == nil {
		return true
	}
	select {
	case <-back:
		return true
	case <-h.probe:
		return true
	case <-stop.Done():
		return false
	}
}

// trip notes that the store is down, and plans the next try.
func (h *hold) trip() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.back == nil {
		h.back = make(chan struct{})
		h.down.Store(true)
	}
	if h.timer != nil {
		return // planned already: several failed together
	}
	h.pause = min(max(2*h.pause, minHold), maxHold)
	h.timer = time.AfterFunc(h.pause, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.timer = nil
		select {
		case h.probe <- struct{}{}:
		default:
		}
	})
}

// pass notes that the caller did not try, so that another one may.
func (h *hold) pass() {
	if !h.down.Load() {
		return
	}
	select {
	case h.probe <- struct{}{}:
	default:
	}
}

// up notes that the store is back.
func (h *hold) up() {
	if !h.down.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.back == nil {
		return
	}
	close(h.back)
	h.back, h.pause = nil, 0
	h.down.Store(false)
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	select {
	case <-h.probe:
	default:
	}
}
