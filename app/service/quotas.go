package service

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// A quotas applies the limits of a file.
type quotas struct {
	file     string
	log      *slog.Logger
	counters *app.Counters
	limiter  *quota.Limiter
	summary  string // of the file at the start, for people

	watched   watched
	instances atomic.Pointer[func() int] // how many share the database; nil: one
}

// loadQuotas returns those of the configuration, nil if it names no file. The
// error has all mistakes of the file.
func loadQuotas(cfg config.Config, counters *app.Counters, log *slog.Logger) (*quotas, error) {
	if cfg.QuotasFile == "" {
		return nil, nil //nolint:nilnil // there are none
	}
	q := &quotas{file: cfg.QuotasFile, log: log, counters: counters}
	var limits quota.Config
	err := q.watched.now(q.file, func(error) (err error) {
		limits, err = config.LoadQuotas(q.file)
		return err
	})
	if err != nil {
		return nil, err
	}
	q.summary = describe(limits)
	q.limiter, err = quota.New(limits, timer.ClockFunc(time.Now), quota.Options{Instances: q.count})
	return q, err
}

// count returns how many instances share the rates.
func (q *quotas) count() int {
	if count := q.instances.Load(); count != nil {
		return (*count)()
	}
	return 1
}

// share divides the rates among the instances that share a store.
func (q *quotas) share(s app.Store) {
	count := s.Instances
	q.instances.Store(&count)
}

// Run loads the file whenever it has changed, until ctx is done. A mistake
// in it is logged once, and the limits stay as they are.
func (q *quotas) Run(ctx context.Context) error { return watch(ctx, q.reload) }

// reload loads the file if it has changed.
func (q *quotas) reload(ctx context.Context) {
	q.watched.changed(q.file, func(err error) {
		limits, err := q.load(err)
		if err != nil {
			q.log.ErrorContext(ctx, "the quotas file is wrong, the old quotas stay in force", "file", q.file, "error", err)
			return
		}
		q.log.InfoContext(ctx, "new quotas are in force", "file", q.file, "quotas", limits)
	})
}

// reloadNow loads the file, changed or not, and returns what is in force, for people.
func (q *quotas) reloadNow() (limits string, err error) {
	err = q.watched.now(q.file, func(err error) error {
		limits, err = q.load(err)
		return err
	})
	return limits, err
}

// load loads the file, unless stat had an error. If there is a mistake in it the limits
// stay as they are.
func (q *quotas) load(err error) (string, error) {
	var limits quota.Config
	if err == nil {
		limits, err = config.LoadQuotas(q.file)
	}
	if err == nil {
		err = q.limiter.Use(limits)
	}
	q.counters.QuotasChanged(err)
	return describe(limits), err
}

// describe summarizes the limits in a line.
func describe(limits quota.Config) string {
	text := "default " + config.FormatLimits(limits.Default)
	switch n := len(limits.Tenants); n {
	case 0:
		return text
	case 1:
		return text + "; 1 tenant has its own"
	default:
		return fmt.Sprintf("%s; %d tenants have their own", text, n)
	}
}
