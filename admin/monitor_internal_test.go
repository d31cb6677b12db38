package admin

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
)

// TestRequestsShareTheirChecks: checks that run at the same time would take each other for
// hanging.
func TestRequestsShareTheirChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		m := NewMonitor(func(context.Context) []app.Check {
			runs++
			time.Sleep(50 * time.Millisecond)
			return []app.Check{{Part: "store"}}
		}, slog.New(slog.DiscardHandler))
		m.asked = true
		var requests sync.WaitGroup
		for range 100 {
			requests.Go(func() {
				if h := m.Health(); !h.Ready() {
					t.Errorf("%+v", h.Parts)
				}
			})
		}
		requests.Wait()
		if runs != 1 {
			t.Errorf("checked %d times", runs)
		}
	})
}
