package service

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
)

// A reloader loads the files that may change while the service runs, whenever a signal asks
// for it: the quotas, the tokens of tenants, and the TLS files, which drivers read at every
// connect.
type reloader struct {
	cfg    config.Config
	log    *slog.Logger
	quotas *quotas  // nil if there are no quotas
	tokens *watched // tokens of tenants, for HTTP; nil if there are none
	asked  <-chan os.Signal
}

// Run loads until ctx is done.
func (r *reloader) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.asked:
			r.reload(ctx)
		}
	}
}

// reload loads the files, and logs one line about the result.
func (r *reloader) reload(ctx context.Context) {
	limits, failed := "none", error(nil)
	if r.quotas != nil {
		limits, failed = r.quotas.now()
	}
	if r.tokens != nil {
		_, err := r.tokens.now()
		failed = errors.Join(failed, err)
	}
	_, err := tlsConfig(r.cfg)
	if failed = errors.Join(failed, err); failed != nil {
		r.log.ErrorContext(ctx, "reload at SIGHUP failed, each wrong file keeps its last settings", "error", failed)
		return
	}
	r.log.InfoContext(ctx, "reloaded at SIGHUP; TLS files are read at the next connect; all other settings need a restart", "quotas", limits)
}

func keepReloading(lc fx.Lifecycle, sd fx.Shutdowner, r *reloader) {
	app.KeepRunning(lc, sd, r.log, "reload", r.Run, nil, closeTimeout)
}
