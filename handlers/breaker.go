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
		probing, ok := h.breaker.acquire(h.stopping)
		if !ok {
			return nil, fmt.Errorf("wait for the store: stopped: %w", h.stopping.Err())
		}
		if probing {
			defer h.breaker.release()
		}
		_, err := next(msg)
		switch {
		case err == nil && receivedOf(msg).exceeded != nil, errors.Is(err, timer.ErrLocked): // says nothing about the store
		case err == nil || isInvalid(err):
			if h.breaker.success() {
				h.log.InfoContext(msg.Context(), "the store works again")
			}
		default:
			if h.breaker.failure(probing) {
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
// it is open, one caller at a time may try: after a pause, which grows with each failure. If that
// succeeds the breaker is closed. (Sony/gobreaker refuses callers instead, so that the
// waiting would come on top of it.)
type breaker struct {
	probe chan struct{} // of capacity 1: has a value while a caller tries, or pauses before

	mu       sync.Mutex
	failures int              // since it was closed; 0: it is closed
	paused   <-chan time.Time // has a value at the end of the pause after the last failure; nil: a caller has seen that
}

func newBreaker() breaker { return breaker{probe: make(chan struct{}, 1)} }

// isOpen reports whether callers wait.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures > 0
}

// acquire returns when the caller may try, or false if stop ended before. A caller that probes
// calls release at the end.
func (b *breaker) acquire(stop context.Context) (probing, ok bool) {
	if !b.isOpen() {
		return false, true
	}
	select {
	case b.probe <- struct{}{}:
	case <-stop.Done():
		return false, false
	}
	b.mu.Lock()
	closed, paused := b.failures == 0, b.paused
	b.paused = nil
	b.mu.Unlock()
	if closed { // by the caller before
		b.release()
		return false, true
	}
	if paused == nil { // the caller before has learned nothing of the store
		return true, true
	}
	select {
	case <-paused:
		return true, true
	case <-stop.Done():
		b.release()
		return false, false
	}
}

// release lets another caller probe.
func (b *breaker) release() { <-b.probe }

// failure opens the breaker, or has the next caller that probes pause for longer, and reports
// whether it was closed. Callers that began before it was opened fail together, which counts once.
func (b *breaker) failure(probing bool) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !probing && b.failures > 0 {
		return false
	}
	b.failures++
	b.paused = time.After(retry.Intake.After(b.failures))
	return b.failures == 1
}

// success closes the breaker, and reports whether it was open.
func (b *breaker) success() (closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	closed = b.failures > 0
	b.failures = 0
	return closed
}
