package service

import (
	"context"
	"log/slog"
	"net/http"
	_ "net/http/pprof" // adds the profiles to http.DefaultServeMux

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/symptom"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/telemetry"
)

// largeLog is the size of a SQLite file's log, in bytes, from which on it is reported.
const largeLog = 256 << 20

// keepMonitor runs the checks of health, even without HTTP, because the log reports their
// results and the supervisor is notified.
func keepMonitor(lc fx.Lifecycle, sd fx.Shutdowner, cfg config.Config, log *slog.Logger, a *app.App, b *Backups) *admin.Monitor {
	m := admin.NewMonitor(func(ctx context.Context) []app.Check {
		all := a.Checks(ctx)
		if size := sqlite.LogSize(cfg.DBPath); cfg.DBURL.Empty() && size > largeLog {
			all = append(all, found(symptom.LogLarge, cfg.DBPath+"-wal", size>>20))
		}
		if b != nil {
			all = append(all, b.check())
		}
		return all
	}, log)
	keepLooking(lc, sd, log, "health", m.Run)
	return m
}

// keepHistory samples how late events are, for the dashboard.
func keepHistory(lc fx.Lifecycle, sd fx.Shutdowner, log *slog.Logger, c *app.Counters, a *app.App) *admin.History {
	h := admin.NewHistory(c, a.Reader().Stats)
	keepLooking(lc, sd, log, "history", h.Run)
	return h
}

// keepTelemetry collects metrics until the stop.
func keepTelemetry(lc fx.Lifecycle, cfg config.Config, log *slog.Logger, t *telemetry.Telemetry, a *app.App, s app.Store, m *admin.Monitor, u *unprotectedCounter, b *Backups) error {
	lc.Append(fx.StopHook(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		if err := t.Shutdown(ctx); err != nil {
			log.WarnContext(ctx, "the last metrics were not sent", "error", err)
		}
	}))
	sources := telemetry.SourcesOf(a, s)
	sources.Checks, sources.Unprotected, sources.Full = m.Checks, u.Last, u.Full
	if cfg.DBURL.Empty() {
		sources.Disk = func() float64 { return sqlite.DiskUsed(cfg.DBPath) }
		sources.Log = func() int64 { return sqlite.LogSize(cfg.DBPath) }
	}
	if b != nil {
		sources.Backups = b.status
	}
	return t.Observe(sources)
}

// servedParts holds the parts that HTTP shows and changes.
type servedParts struct {
	fx.In

	App         *app.App
	Unprotected *unprotectedCounter
	Store       app.Store
	Broker      broker.Broker
	Monitor     *admin.Monitor
	History     *admin.History
	Telemetry   *telemetry.Telemetry
	Traces      *telemetry.Traces
	Events      *admin.Events
	Quotas      *quotas
	Clock       *app.TestClock // nil: the time is real
}

// openAdmin serves HTTP, if the configuration has an address or a socket for it.
func openAdmin(lc fx.Lifecycle, sd fx.Shutdowner, cfg config.Config, log *slog.Logger, what servedParts, d *description) (err error) {
	addr, chosen := cfg.HTTPAddress()
	if addr == "" && cfg.Socket() == "" {
		return nil
	}
	token := cfg.HTTPToken.Reveal()
	if n := len(token); n > 0 && n < config.MinToken {
		log.Warn("http_token is short enough to be guessed: openssl rand -hex 16 makes one that is not", "least_characters", config.MinToken)
	}
	if cfg.HTTPReadOnly && cfg.Socket() == "" {
		log.Warn("http_read_only is set, and there is no http_socket: nobody can pause firing; set http_socket to a path where a socket can be")
	}
	opt := admin.Options{
		Addr: addr, AnyPort: !chosen, Socket: cfg.Socket(), Prefix: cfg.HTTPPrefix, Origin: cfg.HTTPOrigin, Proxies: cfg.HTTPTrustedProxies, Token: token, ReadOnly: cfg.HTTPReadOnly,
		Monitor: what.Monitor, History: what.History, Metrics: what.Telemetry.Handler(), Events: what.Events,
		Timers: what.App.Reader(), Operator: what.Store.Operator(), Service: what.App, Broker: what.Broker, MaxClockAhead: cfg.MaxClockAhead,
		Waiting: what.Store.Inbox().InboxCounts, Unprotected: what.Unprotected.Last, Traced: what.Traces.Handler, Quotas: what.Quotas.limiter, Clock: what.Clock,
	}
	if opt.Database, _, err = what.Store.Identity(context.Background()); err != nil {
		return err
	}
	if opt.Connections = cfg.HTTPConnections; opt.Connections == 0 {
		opt.Connections = min(openFiles()/4, 1000)
	}
	if cfg.HTTPPprof {
		opt.Profiles = http.DefaultServeMux
	}
	if cfg.HTTPTLSCert != "" {
		files, settings := watchCertificate(cfg.HTTPTLSCert, cfg.HTTPTLSKey, log)
		if _, err := files.first(); err != nil {
			return err
		}
		keepLooking(lc, sd, log, "certificate", files.Run)
		opt.TLS = settings
	}
	s := admin.New(log, opt)
	if cfg.HTTPTenantTokensFile != "" {
		tokens := watchTokens(cfg.HTTPTenantTokensFile, s, log)
		if _, err := tokens.first(); err != nil {
			return err
		}
		keepLooking(lc, sd, log, "tokens", tokens.Run)
	}
	if err := s.Listen(context.Background()); err != nil {
		return err
	}
	d.http = s.Address()
	keepLooking(lc, sd, log, "HTTP", s.Run)
	return nil
}
