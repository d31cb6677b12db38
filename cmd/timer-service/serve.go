package main

import (
	"bytes"
	"context"
	"os"
	"runtime/debug"
	"strings"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/service"
)

type serveCmd struct {
	Takeover  bool `help:"Take over the commands at the broker from another database. A service that runs on that one ends within 10s."`
	TestClock bool `help:"For tests: time stands still until POST /v1/clock:advance, on a database of its own that is deleted at the end."`
}

// Help is printed below the summary.
func (serveCmd) Help() string {
	return `Prints where the dashboard is, a line for each part of the service, and "ready" when
it handles commands and fires timers. Logs go to stderr. The first SIGINT or SIGTERM stops the service
cleanly, with exit code 0; the second one ends the process at once. Quotas are loaded
again when their file changes, and new TLS files are read at the next connect; other
settings need a restart.

The broker remembers which database takes its commands. A service with another database
is refused. After a database was lost for good, or moved by export and import, start
once with --takeover.

Without --broker-url a NATS server runs inside this process, with its data next to
the database; clients on this machine find it by --db-path.

Examples:

    timer-service serve
    timer-service serve --broker-url nats://nats:4222 --db-path /var/lib/timers.db
    TIMER_LOG_FORMAT=json timer-service serve --config /etc/timer-service.yaml`
}

// gcPercent suits a heap of a few MiB. With Go's default of 100 the heap is collected fifty
// times a second under load, which costs a tenth of the CPU time and saves 25 MiB. With 400
// it saves no more time, and takes 23 MiB more (measured 2026-11). GOGC overrides it. It is
// not set with a broker in the process, which has a large heap.
const gcPercent = 250

// Run serves until ctx is done.
func (s serveCmd) Run(ctx context.Context, e *env) error {
	e.cfg.Takeover, e.cfg.TestClock = s.Takeover, s.TestClock
	if os.Getenv("GOGC") == "" && !e.cfg.Embedded() {
		debug.SetGCPercent(gcPercent)
	}
	if _, err := loadFiles(e.cfg); err != nil {
		return err
	}
	if e.out.json || e.cfg.LogFormat == config.JSON {
		return service.Run(ctx, e.cfg, partLines{e.out}, e.log)
	}
	return service.Run(ctx, e.cfg, e.out.w, e.log)
}

// partLines turns lines such as "part  description" into JSON objects. Each Write must have whole
// lines.
type partLines struct{ out output }

// Write prints one object for each line.
func (p partLines) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		part, text, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		p.out.line(struct {
			Part string `json:"part"`
			Text string `json:"text,omitempty"`
		}{part, strings.TrimSpace(text)})
	}
	return len(lines), nil
}
