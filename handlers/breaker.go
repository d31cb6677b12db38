package handlers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/timer"
)

// breakCircuit makes messages wait while the store fails, instead of putting them into
// the inbox, which is in the store.
func (h *Handlers) breakCircuit(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		if !h.breaker.acquire(h.stopping) {
			return nil, fmt.Errorf("wait for the store: stopped: %w", h.stopping.Err())
		}
		_, err := next(msg)
		switch {
		case err == nil && receivedOf(msg).exceeded != nil, errors.Is(err, timer.ErrLocked):
			h.breaker.release()
		case err == nil || isInvalid(err):
			if h.breaker.success() {
				h.log.InfoContext(msg.Context(), "the store works again")
			}
		default:
			if h.breaker.failure() {
				h.failures.Add(1)
				h.log.WarnContext(msg.Context(), "the store failed, commands wait until it works again", "error", err)
			}
			h.endIfFatal(err)
		}
		return nil, err
	}
}

// endIfFatal ends Run if an error is fatal.
func (h *Handlers) endIfFatal(err error) {
	if errors.Is(err, timer.ErrFatal) {
		select {
		case h.fatal <- err:
		default:
		}
	}
}

// A breaker is a circuit breaker that makes callers wait. While it is closed, all pass. While
// it is open, all wait. After each pause it is half-open: one caller may try, and if that
// succeeds the breaker is closed. (Sony/gobreaker refuses callers instead, so that the
// waiting would come on top of it.)
type breaker struct {
	probe chan struct{} // holds a permit while half-open

	mu     sync.Mutex
	closed chan struct{} // closed when the breaker closes; nil while it is closed
	pauses int           // how many since it was opened
	timer  *time.Timer   // makes it half-open; nil while half-open or closed
}

func newBreaker() breaker { return breaker{probe: make(chan struct{}, 1)} }

// isOpen reports whether callers wait.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed != nil
}

// acquire returns true when the caller may try, or false if stop ended before. After true the
// caller calls success, failure or release.
func (b *breaker) acquire(stop context.Context) bool {
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed == nil {
		return true
	}
	select {
	case <-closed:
		return true
	case <-b.probe:
		return true
	case <-stop.Done():
		return false
	}
}

// failure opens the breaker for twice as long as the last time, and reports whether it was
// closed.
func (b *breaker) failure() (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if opened = b.closed == nil; opened {
		b.closed = make(chan struct{})
	}
	if b.timer != nil {
		return opened // several callers failed together
	}
	b.pauses++
	b.timer = time.AfterFunc(retry.Intake.After(b.pauses), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.timer = nil
		b.permit()
	})
	return opened
}

// release lets another caller try instead, since this one did not use the store.
func (b *breaker) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.permit()
}

// permit lets one caller try, unless the breaker is closed. The lock must be held.
func (b *breaker) permit() {
	if b.closed == nil {
		return
	}
	select {
	case b.probe <- struct{}{}:
	default:
	}
}

// success closes the breaker, and reports whether it was not closed.
func (b *breaker) success() (closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed == nil {
		return false
	}
	close(b.closed)
	b.closed, b.pauses = nil, 0
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	select {
	case <-b.probe:
	default:
	}
	return true
}
