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
	watched
	limiter *quota.Limiter
	summary string // of the file at the start, for people

	instances atomic.Pointer[func() int] // how many share the database; nil: one
}

// loadQuotas returns those of the configuration, nil if it names no file. The
// error has all mistakes of the file.
func loadQuotas(cfg config.Config, counters *app.Counters, log *slog.Logger) (_ *quotas, err error) {
	if cfg.QuotasFile == "" {
		return nil, nil //nolint:nilnil // there are none
	}
	q := &quotas{watched: watched{file: cfg.QuotasFile}}
	q.load = func() (string, error) {
		limits, err := config.LoadQuotas(q.file)
		if q.limiter == nil { // at the start
			if err == nil {
				q.limiter, err = quota.New(limits, timer.ClockFunc(time.Now), quota.Options{Instances: q.count})
			}
			return describe(limits), err
		}
		if err == nil {
			err = q.limiter.Use(limits)
		}
		counters.QuotasChanged(err)
		return describe(limits), err
	}
	q.logs = func(ctx context.Context, inForce string, err error) {
		if err != nil {
			log.ErrorContext(ctx, "the quotas file is wrong, the old quotas stay in force", "file", q.file, "error", err)
			return
		}
		log.InfoContext(ctx, "new quotas are in force", "file", q.file, "quotas", inForce)
	}
	q.summary, err = q.now()
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
