package service

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// quotasInterval is how often the quotas file is checked.
const quotasInterval = time.Second

// A quotas applies the limits of a file.
type quotas struct {
	file     string
	log      *slog.Logger
	counters *app.Counters
	limiter  *quota.Limiter
	summary  string // of the file at the start, for people

	mu     sync.Mutex
	loaded os.FileInfo // the file as it was loaded last, valid or not; nil if there was none
	seen   os.FileInfo // the same at the last check

	instances atomic.Pointer[func() int] // how many share the database; nil: one
}

// loadQuotas returns those of the configuration, nil if it names no file. The
// error has all mistakes of the file.
func loadQuotas(cfg config.Config, counters *app.Counters, log *slog.Logger) (*quotas, error) {
	if cfg.QuotasFile == "" {
		return nil, nil //nolint:nilnil // there are none
	}
	q := &quotas{file: cfg.QuotasFile, log: log, counters: counters}
	q.seen, _ = stat(q.file)
	q.loaded = q.seen
	limits, err := config.LoadQuotas(q.file)
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
func (q *quotas) Run(ctx context.Context) error {
	tick := time.NewTicker(quotasInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		q.reload(ctx)
	}
}

// reload loads the file if it has changed, and not again since the last check: it may
// be half written, and half of it may be valid.
func (q *quotas) reload(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.seen
	now, err := stat(q.file)
	q.seen = now
	if same(now, q.loaded) || !same(now, before) {
		return
	}
	limits, err := q.load(now, err)
	if err != nil {
		q.log.ErrorContext(ctx, "the quotas file is wrong, the old quotas stay in force", "file", q.file, "error", err)
		return
	}
	q.log.InfoContext(ctx, "new quotas are in force", "file", q.file, "quotas", limits)
}

// reloadNow loads the file, changed or not, and returns what is in force, for people.
func (q *quotas) reloadNow() (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, err := stat(q.file)
	q.seen = now
	return q.load(now, err)
}

// load loads the file, of which it is known what stat said. If there is a mistake in
// it the limits stay as they are.
func (q *quotas) load(now os.FileInfo, err error) (string, error) {
	q.loaded = now
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

// stat returns the information about a file, nil if that is an error.
func stat(name string) (os.FileInfo, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// same reports whether a file is unchanged.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
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
