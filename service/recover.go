package service

import (
	"context"
	"fmt"
	"log/slog"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// Recover recovers the database from the broker. If dry, it only returns the changes that it
// would make, and refuses a SQLite file that is absent or has no tables, which a start would change.
// No service may run on a SQLite file meanwhile.
func Recover(ctx context.Context, cfg config.Config, dry bool, log *slog.Logger) (done app.Recovered, err error) {
	if dry && cfg.DBURL.Empty() { // opened for writing, a missing file is made, and a log next to one is written into it
		reader, err := sqlite.OpenReader(ctx, cfg.DBPath)
		if err != nil {
			return done, fmt.Errorf("there is nothing to compare with the broker, of which a start with a new database reads all: %w", err)
		}
		if err := reader.Close(); err != nil {
			return done, err
		}
	}
	counters := new(app.Counters)
	limits, err := loadQuotas(cfg, counters, log)
	if err != nil {
		return done, err
	}
	var a *app.App
	parts := fx.New(
		fx.NopLogger, fx.StartTimeout(startTimeout), fx.StopTimeout(stopTimeout(cfg)),
		fx.Supply(cfg, log),
		fx.Provide(func(lc fx.Lifecycle) (app.Store, error) { return openStore(ctx, lc, cfg, log) }, openBroker),
		fx.Invoke(func(s app.Store, b broker.Broker) (err error) {
			a, err = app.New(s, b, log, options(cfg, counters, limits))
			return err
		}),
	)
	_, err = during(ctx, parts, func() (err error) {
		done, err = a.Recover(ctx, dry)
		return err
	})
	return done, err
}
