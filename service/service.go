// Package service assembles the standalone service: it opens the store and the broker of the
// configuration and runs the app on them. The choice of drivers is made here.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/dig"
	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/telemetry"
)

// startTimeout bounds the start. The longest part of a start is the migration of a large
// database. An unreachable broker does not delay it.
const startTimeout = 5 * time.Minute

// Run serves until ctx is done, then stops cleanly and returns nil. It prints a line for each
// part to out, and "ready" when commands are handled and timers fire. It returns an error if
// something can't start, or if a part dies.
func Run(ctx context.Context, cfg config.Config, out io.Writer, log *slog.Logger) (err error) {
	log = slog.New(telemetry.LogHandler(log.Handler()))
	signal.Ignore(syscall.SIGHUP) // tools send it after a change; the files are watched
	cfg, clock, remove, err := withTestClock(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	counters := new(app.Counters)
	limits, err := loadQuotas(cfg, counters, log)
	if err != nil {
		return err
	}
	metrics, err := telemetry.New(ctx, cfg.Version, counters)
	if err != nil {
		return err
	}
	traces, err := telemetry.NewTraces(ctx, cfg.Version)
	if err != nil {
		return err
	}
	defer func() { // when all parts have ended
		exporting, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
		defer cancel()
		if err := traces.Shutdown(exporting); err != nil {
			log.WarnContext(ctx, "the last spans were not sent", "error", err)
		}
	}()
	opt := options(cfg, counters, limits)
	events := admin.NewEvents()
	if opt.TestClock = clock; clock != nil {
		limits.now = clock.Now
		log.WarnContext(ctx, "TEST CLOCK: time stands still until a test advances it, and the database is deleted at the end", "now", clock.Now(), "db_path", cfg.DBPath)
	}
	opt.Hooks = []app.Hooks{metrics.Hooks(), events.Hooks()}
	opt.Tracing = traces.Tracing(string(cfg.Broker))
	service := fx.New(
		fx.NopLogger,
		fx.StartTimeout(startTimeout),
		fx.StopTimeout(stopTimeout(cfg)),
		fx.Supply(cfg, log, clock, counters, limits, metrics, traces, events, fx.Annotate(out, fx.As(new(io.Writer)))),
		fx.Provide(
			func(lc fx.Lifecycle) (closingStore, error) { return openStore(ctx, lc, cfg, log) },
			func(s closingStore) app.Store { return s },
			openBroker, keepMonitor, keepHistory, keepUnprotected, keepBackups,
		),
		app.Module(opt),
		fx.Invoke(keepQuotas, keepTelemetry, openAdmin),
		fx.Invoke(announce, notifySystemd),
	)
	if service.Err() != nil && ctx.Err() != nil {
		return nil // stopped while it waited for the database
	}
	died := false
	started, err := during(ctx, service, func() error {
		select {
		case <-ctx.Done():
		case end := <-service.Wait():
			died = end.ExitCode != 0 // 0 is a signal, which fx also listens to
		}
		return nil
	})
	if !started {
		return err
	}
	log.InfoContext(ctx, "stopped")
	if died && err == nil {
		err = errors.New("a part of the service ended by itself; see the log")
	}
	if err == nil {
		fmt.Fprintln(out, "stopped")
	}
	return err
}

// during starts parts, runs work, and stops them. The end of ctx does not interrupt a start,
// because fx would leave its hooks running. Parts that were started are stopped in any case.
func during(ctx context.Context, parts *fx.App, work func() error) (started bool, err error) {
	if err := parts.Err(); err != nil {
		return false, dig.RootCause(err)
	}
	ctx = context.WithoutCancel(ctx)
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := parts.Start(starting); err != nil {
		return false, dig.RootCause(err) // fx has stopped the started parts
	}
	err = work()
	stopping, cancel := context.WithTimeout(ctx, parts.StopTimeout())
	defer cancel()
	return true, errors.Join(err, parts.Stop(stopping))
}

// options returns the options of the app for the configuration.
func options(cfg config.Config, counters *app.Counters, q *quotas) app.Options {
	letters := handlers.DeadLetterLimits{Bytes: cfg.DeadLetterBytes, TotalBytes: cfg.DeadLetterTotalBytes}
	if cfg.Broker == config.NATS {
		letters.Bytes, letters.TotalBytes = min(letters.Bytes, cfg.NATSMaxBytes/16), min(letters.TotalBytes, cfg.NATSMaxBytes/4)
	}
	return app.Options{
		DeadLetters:     letters,
		PollingInterval: cfg.PollingInterval,
		BatchSize:       cfg.BatchSize,
		Precision:       cfg.Precision,
		Retention:       cfg.Retention,
		Horizon:         cfg.Horizon,
		MaxClockAhead:   cfg.MaxClockAhead,
		IgnoreOthers:    cfg.UnknownTypes == config.Ignore,
		DrainTimeout:    cfg.DrainTimeout,
		CatchUpTimeout:  cfg.CatchUpTimeout,
		Counters:        counters,
		Takeover:        cfg.Takeover,
		AskToRecover:    cfg.Recover == config.Ask,
		StartPaused:     cfg.StartPaused,
		RunBroker:       true,
		BrokerName:      brokerName(cfg),
		Quotas:          q.limiter,
		Inbox: handlers.InboxLimits{
			Messages: int64(cfg.InboxMessages), Bytes: cfg.InboxBytes, TotalBytes: cfg.InboxTotalBytes, MaxWait: cfg.MaxWait,
		},
	}
}

// keepQuotas loads the quotas again when their file changes.
func keepQuotas(lc fx.Lifecycle, sd fx.Shutdowner, log *slog.Logger, s app.Store, q *quotas) {
	if q.limiter == nil {
		return
	}
	q.instances = func() int { return app.InstancesOf(s) } // nothing runs yet
	app.KeepRunning(lc, sd, log, "quotas", q.Run, nil, closeTimeout)
}

// announce prints a line for each part once everything runs. It is invoked last, so that its
// hook starts last.
func announce(
	lc fx.Lifecycle, out io.Writer, cfg config.Config, b broker.Broker, m *admin.Monitor, d *description, q *quotas,
) {
	r := b.Routing()
	ctx, cancel := context.WithCancel(context.Background())
	lc.Append(fx.StartStopHook(
		func() {
			line := func(part, format string, args ...any) {
				fmt.Fprintf(out, "%-10s "+format+"\n", append([]any{part}, args...)...)
			}
			form := ""
			if cfg.EventFormat == config.CloudEvents {
				form = ", as CloudEvents from " + cfg.EventSource
			}
			for _, l := range []struct {
				part string
				is   bool // the service has this part
				text string
			}{
				{"test", cfg.TestClock, "TEST CLOCK: time stands still until POST /v1/clock:advance; the database is deleted at the end"},
				{"dashboard", d.http != "", d.http + "/"},
				{"store", true, storeName(cfg) + ", " + string(cfg.Durability)},
				{"backups", cfg.BackupEvery > 0, fmt.Sprintf("every %s into %s, the newest %d are kept", config.FormatDuration(cfg.BackupEvery), cfg.BackupDir, cfg.BackupKeep)},
				{"broker", true, d.broker},
				{"router", true, "commands from " + r.Commands + ", dead letters to " + r.DeadLetters},
				{"poller", true, fmt.Sprintf("sleeps until the next timer is due, at most %s; %d timers a batch", cfg.PollingInterval, cfg.BatchSize)},
				{"quotas", q.file != "", q.file + ": " + q.summary},
				{"forwarder", true, "events to " + r.Events + form},
				{"receipts", r.Receipts != "", "to " + r.Receipts},
				{"http", d.http != "", d.http + ", with the API on /docs, /readyz?verbose and /metrics"},
			} {
				if l.is {
					line(l.part, "%s", l.text)
				}
			}
			switch {
			case b.Ready(ctx) != nil:
				line("waiting", "for the broker at %s; retried until it answers", d.address)
			case settles(ctx, m):
				line("ready", "%s", d.address)
				return
			default:
				line("waiting", "for what timer-service health says")
			}
			go func() {
				if awaitReady(ctx, m.Health, 100*time.Millisecond) {
					line("ready", "%s", d.address)
				}
			}()
		},
		cancel,
	))
}

// settleTime is how long the parts may take to become ready if the broker and the database
// answer.
const settleTime = 2 * time.Second

// settles waits for the parts that start with the service, and reports whether all became
// ready.
func settles(ctx context.Context, m *admin.Monitor) bool {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	return awaitReady(ctx, func() admin.Health { return m.Refresh(ctx) }, 20*time.Millisecond)
}

// awaitReady waits until no check is red, so that health says the same from then on. It
// returns false if ctx ended before.
func awaitReady(ctx context.Context, health func() admin.Health, every time.Duration) bool {
	for !health().Ready() {
		if !pause.For(ctx, every) {
			return false
		}
	}
	return ctx.Err() == nil
}
