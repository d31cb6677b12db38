package service

import (
	"context"
	"log/slog"
	"runtime/debug"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/telemetry"
)

// keepMonitor runs the checks of health, also without HTTP: the log says what they
// find, and the supervisor is notified.
func keepMonitor(lc fx.Lifecycle, sd fx.Shutdowner, log *slog.Logger, a *app.App) *admin.Monitor {
	m := admin.NewMonitor(a.Checks, log)
	app.Running(lc, sd, log, "health", m.Run, nil, lookTimeout)
	return m
}

// keepTelemetry has metrics collected until the stop.
func keepTelemetry(lc fx.Lifecycle, log *slog.Logger, t *telemetry.Telemetry, a *app.App, s app.Store, m *admin.Monitor) error {
	lc.Append(fx.StopHook(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		if err := t.Shutdown(ctx); err != nil {
			log.WarnContext(ctx, "the last metrics were not sent", "error", err)
		}
	}))
	return t.Observe(telemetry.Sources{
		Stats: s.Stats, Status: a.Status, Instances: s.Instances,
		Ready: func() map[string]bool {
			green := make(map[string]bool)
			for _, p := range m.Health().Parts {
				green[p.Part] = !p.Red
			}
			return green
		},
	})
}

// openAdmin answers HTTP, if the configuration has an address for it.
func openAdmin(lc fx.Lifecycle, sd fx.Shutdowner, cfg config.Config, log *slog.Logger, m *admin.Monitor, t *telemetry.Telemetry, timers app.Store, b broker.Broker, d *description) error {
	addr, chosen := cfg.HTTPAddress()
	if addr == "" {
		return nil
	}
	s := admin.New(log, admin.Options{
		Addr: addr, Moves: !chosen, Prefix: cfg.HTTPPrefix, Token: cfg.HTTPToken.Reveal(), Monitor: m, Metrics: t.Handler(),
		Timers: timers, Broker: b, ReadOnly: cfg.HTTPReadOnly,
	})
	if err := s.Listen(context.Background()); err != nil {
		return err
	}
	d.http = s.Address()
	app.Running(lc, sd, log, "HTTP", s.Run, nil, lookTimeout)
	return nil
}

// version returns that of this binary, as Go has built it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}
