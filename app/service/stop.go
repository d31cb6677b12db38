package service

import (
	"fmt"
	"time"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
)

// closeTimeout is how long a stop waits for what was opened to be closed: the
// embedded server, and the database.
const closeTimeout = 750 * time.Millisecond

// lookTimeout is the same of what operators look at: HTTP, and metrics that were not
// sent yet.
const lookTimeout = 250 * time.Millisecond

// stopTimeout returns how long a stop takes at most: drain_timeout and five
// seconds. Each part has its share, so that one which needs all of it leaves the
// others theirs.
func stopTimeout(cfg config.Config) time.Duration {
	return app.Options{DrainTimeout: cfg.DrainTimeout, RunBroker: true}.StopTimeout() + 2*closeTimeout + 2*lookTimeout
}

// closeHook closes something at the stop, and waits for that no longer than
// closeTimeout.
func closeHook(what string, closeIt func() error) fx.Hook {
	return fx.StopHook(func() error {
		closed := make(chan error, 1)
		go func() { closed <- closeIt() }()
		select {
		case err := <-closed:
			return err
		case <-time.After(closeTimeout):
			return fmt.Errorf("%s was not closed within %v", what, closeTimeout)
		}
	})
}
