package admin_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
)

// TestRefreshIsOneOfMany: checks that run at the same time would take each other for
// hanging, and last a second.
func TestRefreshIsOneOfMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var atOnce atomic.Int32
		m := admin.NewMonitor(func(context.Context) []app.Check {
			defer atOnce.Add(-1)
			check := app.Check{Part: "store", Red: atOnce.Add(1) > 1}
			time.Sleep(50 * time.Millisecond)
			return []app.Check{check}
		}, quiet)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		for range 100 {
			if h := m.Refresh(t.Context()); !h.Ready() {
				t.Fatalf("%+v", h.Parts)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
