package service

import (
	"context"
	"log/slog"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
)

// Recover recovers the database from the broker. If dry, it only returns the changes that it
// would make. No service may run on a SQLite file meanwhile.
func Recover(ctx context.Context, cfg config.Config, dry bool, log *slog.Logger) (done app.Recovered, err error) {
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
