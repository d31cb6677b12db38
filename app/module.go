package app

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/timer"
)

// A Handler holds the arguments of a call of [Timers.OnDue] or [Timers.OnDueTx]. The modules of
// an fx application provide Handlers in the group of values "timer_handlers". Either Handle or
// HandleTx is set.
type Handler struct {
	Prefix   string // of the service call ids
	Handle   func(ctx context.Context, e timer.DueTimeReached) error
	HandleTx func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error
	Options  OnDueOptions

	from string // who provides it
}

// ProvideHandler provides the [Handler] that a constructor returns, so that each module of an
// application brings its own handlers. The constructor may take [*Timers]. Errors of the start
// name the caller of ProvideHandler.
func ProvideHandler(constructor any) fx.Option {
	from := caller()
	return fx.Module("timer handler",
		fx.Provide(constructor, fx.Private),
		fx.Provide(fx.Annotate(func(on Handler) Handler { on.from = from; return on }, fx.ResultTags(`group:"timer_handlers"`))),
	)
}

// providedHandlers has the handlers that the modules of the application provide.
type providedHandlers struct {
	fx.In

	All []Handler `group:"timer_handlers"`
}

// host has the values that the module takes from the application it runs in.
type host struct {
	fx.In

	Lifecycle  fx.Lifecycle
	Shutdowner fx.Shutdowner
	Store      Store
	Broker     broker.Broker `optional:"true"`
	Log        *slog.Logger
}

// Module runs the timer service inside an fx application. The host provides a
// [Store] on its own *sql.DB (store/sqlite and store/postgres make one), a *slog.Logger,
// and a [broker.Broker], which it keeps running unless [Options].RunBroker asks the
// module to. Without a broker some module provides a handler ([ProvideHandler]), or calls
// [Timers.OnDue] in an fx.Invoke. The module
// provides [*Timers], and the [*App] to look at it, and closes nothing that the host program provides.
//
// The start waits until commands are being taken, and comes after that of everything
// which the handlers need. If a part dies later the
// application is shut down with exit code 1.
func Module(opt Options) fx.Option {
	return fx.Module("timer",
		fx.Provide(func(h host) (*App, error) { return New(h.Store, h.Broker, h.Log, opt) }, (*App).Timers),
		fx.Invoke(func(a *App, h host, handlers providedHandlers) {
			for _, on := range handlers.All {
				on.from = cmp.Or(on.from, `in the group "timer_handlers"`)
				a.register(on)
			}
			KeepRunning(h.Lifecycle, h.Shutdowner, h.Log, "timer service", a.Run, a.Running(), opt.StopTimeout())
		}),
	)
}

// KeepRunning keeps a Run running in an fx application: it begins with the start, which
// waits for ready (nil: for nothing), and ends with the stop, which waits at most for
// limit until Run returns, so that later parts are stopped too.
// If Run ends by itself the application shuts down with exit
// code 1.
func KeepRunning(
	lc fx.Lifecycle, sd fx.Shutdowner, log *slog.Logger,
	name string, run func(context.Context) error, ready <-chan struct{}, limit time.Duration,
) {
	option.Require("app.KeepRunning", "fx.Lifecycle", lc, "fx.Shutdowner", sd, "*slog.Logger", log, "function", run)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var failed error // valid once ended is closed

	lc.Append(fx.Hook{
		OnStart: func(start context.Context) error {
			go func() {
				failed = run(ctx)
				early := ctx.Err() == nil
				close(ended)
				if !early {
					return
				}
				log.ErrorContext(ctx, "a part of the application ended, shutting down", "part", name, "error", failed)
				if err := sd.Shutdown(fx.ExitCode(1)); err != nil {
					log.ErrorContext(ctx, "shutting down", "error", err)
				}
			}()
			if ready == nil {
				return nil
			}
			select {
			case <-ready:
				return nil
			case <-ended:
				return errors.Join(errors.New(name+" did not start"), failed)
			case <-start.Done():
				cancel()
				return start.Err()
			}
		},
		OnStop: func(stop context.Context) error {
			cancel()
			stop, cancel := context.WithTimeout(stop, limit)
			defer cancel()
			select {
			case <-ended:
				return failed
			case <-stop.Done():
				return fmt.Errorf("%s did not stop in time: %w", name, stop.Err())
			}
		},
	})
}

// KeepBroker keeps a broker running in an fx application, from the start to the
// stop, for a host whose own parts use it, too. For other hosts [Options].RunBroker is enough.
// The start waits until the broker is ready, but no longer than a second: an absent
// broker is waited for by the parts that use it.
func KeepBroker(lc fx.Lifecycle, sd fx.Shutdowner, log *slog.Logger, b broker.Broker) {
	option.Require("app.KeepBroker", "broker", b)
	KeepRunning(lc, sd, log, "broker", b.Run, nil, brokerStopTimeout)
	lc.Append(fx.StartHook(func(ctx context.Context) { awaitReady(ctx, b) }))
}
