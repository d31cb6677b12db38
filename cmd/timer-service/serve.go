package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/event-service-agent/timer-service/app/service"
)

type serveCmd struct{}

// Help is printed below the summary.
func (serveCmd) Help() string {
	return `Prints one line a part, and "ready" when commands are taken. Logs go to stderr.
The first SIGINT or SIGTERM stops cleanly, with exit code 0; the second one
ends the process at once.

Without --broker-url a NATS server runs inside this process, its data beside
the database; clients on this machine find it by --db-path.

Examples:

    timer-service serve
    timer-service serve --broker-url nats://nats:4222 --db-path /var/lib/timers.db
    TIMER_LOG_FORMAT=json timer-service serve --config /etc/timer-service.yaml`
}

// gcPercent is for a heap that holds a few MiB, which the default of Go collects
// fifty times a second under load: a tenth of all CPU time for 20 MiB less
// (measured 2026-11). GOGC overrides it. A broker in the process has a large heap
// of its own.
const gcPercent = 400

// Run serves until ctx is done.
func (serveCmd) Run(ctx context.Context, e *env) error {
	if os.Getenv("GOGC") == "" && !e.cfg.Embedded() {
		debug.SetGCPercent(gcPercent)
	}
	if _, err := loadQuotas(e.cfg); err != nil {
		return err
	}
	if e.out.json {
		return service.Run(ctx, e.cfg, parts{e.out}, e.log)
	}
	return service.Run(ctx, e.cfg, e.out.w, e.log)
}
