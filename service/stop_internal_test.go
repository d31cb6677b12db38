package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/internal/logbuf"
)

// hooks is a lifecycle that a test starts and stops.
type hooks []fx.Hook

func (h *hooks) Append(added fx.Hook) { *h = append(*h, added) }

// TestStopGoesOnWithoutWhatOperatorsLookAt stops a part of each kind that ends: in time,
// too late, and with an error.
func TestStopGoesOnWithoutWhatOperatorsLookAt(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		name  string
		takes time.Duration
		ends  error
		waits time.Duration
		warns bool
	}{
		{"in time", 0, nil, 0, false},
		{"too late", time.Hour, nil, lookTimeout, true},
		{"with an error", 0, broken, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var lc hooks
				var log logbuf.Buffer
				keepLooking(&lc, struct{ fx.Shutdowner }{}, slog.New(slog.NewTextHandler(&log, nil)), "HTTP", func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(tt.takes)
					return tt.ends
				})
				must(t, lc[0].OnStart(t.Context()))
				synctest.Wait()
				began := time.Now()
				if err := lc[0].OnStop(t.Context()); !errors.Is(err, tt.ends) {
					t.Errorf("stopped: %v, want %v", err, tt.ends)
				}
				if took := time.Since(began); took != tt.waits {
					t.Errorf("waited %v, want %v", took, tt.waits)
				}
				if warns := strings.Contains(log.String(), "part=HTTP"); warns != tt.warns {
					t.Errorf("warns = %v, want %v: %s", warns, tt.warns, log.String())
				}
				time.Sleep(tt.takes) // until it has ended
			})
		})
	}
}

// TestCloseHasTheTimeThatIsLeft closes something that needs seconds, at the stop of a
// service whose other parts needed none of theirs, and something that never closes.
func TestCloseHasTheTimeThatIsLeft(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		stop  time.Duration // time that is left of the stop
		takes time.Duration
		fails bool
		most  time.Duration
	}{
		{"in time", 5 * time.Second, 3 * time.Second, false, 3 * time.Second},
		{"too late", 5 * time.Second, time.Hour, true, 5*time.Second - closeTimeout},
		{"nothing is left", 0, time.Hour, true, closeTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithDeadline(t.Context(), began.Add(tt.stop))
				defer cancel()
				hook := closeHook("the server", func() error { time.Sleep(tt.takes); return nil })
				if err := hook.OnStop(ctx); (err != nil) != tt.fails {
					t.Errorf("closed: %v", err)
				}
				if took := time.Since(began); took != tt.most {
					t.Errorf("waited %v, want %v", took, tt.most)
				}
				time.Sleep(tt.takes) // until it is closed
			})
		})
	}
}
