package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
)

func TestWhileBothEndsWithEither(t *testing.T) {
	t.Parallel()
	for which := range 2 {
		synctest.Test(t, func(t *testing.T) {
			var both [2]context.Context
			var end [2]context.CancelFunc
			for i := range both {
				both[i], end[i] = context.WithCancel(t.Context())
				defer end[i]()
			}
			ctx, stop := pause.WhileBoth(both[0], both[1])
			defer stop()
			if ctx.Err() != nil {
				t.Error("it ended before either did")
			}
			end[which]()
			synctest.Wait()
			late, stop := pause.WhileBoth(both[0], both[1])
			defer stop()
			if ctx.Err() == nil || late.Err() == nil {
				t.Errorf("context %d has ended, and neither that before nor that after: %v, %v", which, ctx.Err(), late.Err())
			}
		})
	}
}

func TestOutlivesItsParent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		timeout    time.Duration
		parentEnds time.Duration
		want       time.Duration
	}{
		{"the parent ends first: the grace", 30 * time.Second, 3 * time.Second, 5 * time.Second},
		{"the timeout is first", 30 * time.Second, time.Hour, 30 * time.Second},
		{"the parent ends just before the timeout", 30 * time.Second, 29 * time.Second, 30 * time.Second},
		{"no timeout", 0, time.Hour, time.Hour + 2*time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithTimeout(t.Context(), tt.parentEnds)
				defer cancel()
				began := time.Now()
				ctx, end := pause.Outlive(parent, tt.timeout, 2*time.Second)
				defer end()
				<-ctx.Done()
				if got := time.Since(began); got != tt.want {
					t.Errorf("ended after %v, want %v", got, tt.want)
				}
			})
		})
	}
}
