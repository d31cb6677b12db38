package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
)

// closeTimeout is how long a stop waits, at least, for the embedded server or the database to
// close.
const closeTimeout = 750 * time.Millisecond

// lookTimeout is how long a stop waits for the parts that operators read: HTTP, and metrics
// that were not sent yet.
const lookTimeout = 250 * time.Millisecond

// stopTimeout returns the longest time that a stop takes: drain_timeout and five seconds. Each
// part has its share, so that a slow part leaves the others theirs.
func stopTimeout(cfg config.Config) time.Duration {
	return app.Options{DrainTimeout: cfg.DrainTimeout, RunBroker: true}.StopTimeout() + 2*closeTimeout + 2*lookTimeout
}

// keepLooking keeps a part running that operators read, such as HTTP. It holds nothing that a
// stop must save. So if such a part needs longer than lookTimeout, as on a busy machine, the
// stop does not fail: it logs a warning and goes on.
func keepLooking(lc fx.Lifecycle, sd fx.Shutdowner, log *slog.Logger, name string, run func(context.Context) error) {
	app.KeepRunning(boundedLifecycle{lc, log, name}, sd, log, name, run, nil, lookTimeout)
}

// boundedLifecycle is a lifecycle that goes on if a part does not stop in time.
type boundedLifecycle struct {
	fx.Lifecycle
	log  *slog.Logger
	part string
}

// Append appends a hook whose stop may take too long.
func (l boundedLifecycle) Append(h fx.Hook) {
	stop := h.OnStop
	h.OnStop = func(ctx context.Context) error {
		err := stop(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			l.log.WarnContext(ctx, "a part did not stop in time, continuing the shutdown without it", "part", l.part, "waited", lookTimeout)
			return nil
		}
		return err
	}
	l.Lifecycle.Append(h)
}

// closeHook closes something at the stop. It waits for closeTimeout, and longer if the parts
// that stopped before left some time: on a slow disk the embedded server needs seconds for
// its files. It leaves the next hook its share.
func closeHook(what string, closeIt func() error) fx.Hook {
	return fx.StopHook(func(ctx context.Context) error {
		timeout := closeTimeout
		if deadline, ok := ctx.Deadline(); ok {
			timeout = max(timeout, time.Until(deadline)-closeTimeout)
		}
		closed := make(chan error, 1)
		go func() { closed <- closeIt() }()
		select {
		case err := <-closed:
			return err
		case <-time.After(timeout):
			return fmt.Errorf("%s was not closed within %v", what, timeout)
		}
	})
}
