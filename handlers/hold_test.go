package handlers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func newHold() *hold { return &hold{probe: make(chan struct{}, 1)} }

func TestHoldLetsAllThroughWhileUp(t *testing.T) {
	t.Parallel()
	h := newHold()
	for range 3 {
		if !h.wait(t.Context()) {
			t.Fatal("held though nothing failed")
		}
	}
}

func TestHoldLetsOneTryAfterEachPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, began := newHold(), time.Now()
		h.trip()
		h.trip() // fails together with the first: one pause, not two
		tried := make(chan time.Duration, 100)
		for range 100 {
			go func() {
				if h.wait(t.Context()) {
					tried <- time.Since(began)
				}
			}()
		}
		var at time.Duration
		for _, pause := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
			at += pause
			if got := <-tried; got != at {
				t.Fatalf("one tried after %v, want %v", got, at)
			}
			synctest.Wait()
			if len(tried) > 0 {
				t.Fatalf("%d more tried in the same pause", len(tried))
			}
			h.trip()
		}
		h.up()
		synctest.Wait()
		if len(tried) != 97 {
			t.Errorf("%d of 97 went on when the store was back", len(tried))
		}
		if !h.wait(t.Context()) {
			t.Error("held after the store was back")
		}
	})
}

func TestHoldEndsWithTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHold()
		h.trip()
		stop, cancel := context.WithCancel(t.Context())
		cancel()
		if h.wait(stop) {
			t.Error("went on after the stop")
		}
		h.up()
	})
}

func TestHoldPauseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHold()
		for range 20 {
			h.trip()
			if !h.wait(t.Context()) {
				t.Fatal("not let through")
			}
		}
		if h.pause != maxHold {
			t.Errorf("pause grew to %v, want %v", h.pause, maxHold)
		}
		h.trip()
		h.up()
		if h.pause != 0 {
			t.Errorf("pause is %v after the store was back", h.pause)
		}
	})
}
