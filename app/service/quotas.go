package service

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// quotasInterval is how often the quotas file is looked at.
const quotasInterval = time.Second

// A quotas keeps what a file says in force.
type quotas struct {
	file     string
	log      *slog.Logger
	counters *app.Counters
	keeper   *quota.Keeper
	said     string      // what the file said at the start, for people
	loaded   os.FileInfo // the file as it was loaded last, well or not; nil if it was gone
	seen     os.FileInfo // the same at the last look

	instances atomic.Pointer[func() int] // how many share the database; nil: one
}

// loadQuotas returns those of the configuration, nil if it names no file. The
// error holds all that is wrong with the file.
func loadQuotas(cfg config.Config, counters *app.Counters, log *slog.Logger) (*quotas, error) {
	if cfg.QuotasFile == "" {
		return nil, nil //nolint:nilnil // there are none
	}
	q := &quotas{file: cfg.QuotasFile, log: log, counters: counters}
	q.seen, _ = stat(q.file)
	q.loaded = q.seen
	book, err := config.LoadQuotas(q.file)
	if err != nil {
		return nil, err
	}
	q.said = describe(book)
	q.keeper, err = quota.New(book, timer.ClockFunc(time.Now), quota.Options{Instances: q.count})
	return q, err
}

// count returns how many instances share the rates.
func (q *quotas) count() int {
	if count := q.instances.Load(); count != nil {
		return (*count)()
	}
	return 1
}

// share lets those share the rates that share a store.
func (q *quotas) share(s timer.Store) {
	if shared, ok := s.(interface{ Instances() int }); ok && q != nil {
		count := shared.Instances
		q.instances.Store(&count)
	}
}

// Run loads the file whenever it has changed, until ctx is done. What is wrong
// with it is logged once, and the limits stay as they are.
func (q *quotas) Run(ctx context.Context) error {
	tick := time.NewTicker(quotasInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		q.look(ctx)
	}
}

// look loads the file if it has changed, and no more since the last look: it may
// be half written, and half of it may well be valid.
func (q *quotas) look(ctx context.Context) {
	before := q.seen
	now, err := stat(q.file)
	q.seen = now
	if same(now, q.loaded) || !same(now, before) {
		return
	}
	q.loaded = now
	var book quota.Book
	if err == nil {
		book, err = config.LoadQuotas(q.file)
	}
	if err == nil {
		err = q.keeper.Use(book)
	}
	q.counters.QuotasChanged(err)
	if err != nil {
		q.log.ErrorContext(ctx, "quotas stay as they were: the file is wrong", "file", q.file, "error", err)
		return
	}
	q.log.InfoContext(ctx, "new quotas are in force", "file", q.file, "quotas", describe(book))
}

// stat returns what the file system says of a file, nil if that is an error.
func stat(name string) (os.FileInfo, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// same reports whether a file was not changed.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// describe says in a line what is in force.
func describe(book quota.Book) string {
	text := "default " + config.FormatLimits(book.Default)
	switch n := len(book.Tenants); n {
	case 0:
		return text
	case 1:
		return text + "; 1 tenant has its own"
	default:
		return fmt.Sprintf("%s; %d tenants have their own", text, n)
	}
}
