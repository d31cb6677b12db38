package service

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/telemetry"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	countInterval  = time.Minute      // between two counts, at least
	countShare     = 100              // the database counts for at most one part in countShare of the time
	countTimeout   = 10 * time.Second // of a count
	maxUnprotected = 1_000_000        // rows that a count reads
)

// publishDelay is how much later than its timestampMs a command may arrive at the broker,
// because producers retry and their clocks differ.
const publishDelay = time.Minute

// An unprotectedCounter counts, at intervals, the timers that only a backup protects.
type unprotectedCounter struct {
	logs  func(context.Context) ([]broker.Log, error)
	store countedStore
	log   *slog.Logger
	last  atomic.Pointer[timer.Unprotected]
	full  atomic.Pointer[telemetry.Limit] // how full the broker is
	said  time.Time                       // when it was last logged that the broker fills
	took  time.Duration                   // what the last count took of the database
}

// keepUnprotected counts the timers that only a backup protects, until the stop.
func keepUnprotected(lc fx.Lifecycle, sd fx.Shutdowner, log *slog.Logger, s closingStore, b broker.Broker) *unprotectedCounter {
	u := &unprotectedCounter{
		logs:  func(context.Context) ([]broker.Log, error) { return nil, nil },
		store: s, log: log,
	}
	if kept, _ := b.History(); kept != nil {
		u.logs = func(ctx context.Context) ([]broker.Log, error) { return kept.Logs(ctx, roleName) }
	}
	keepLooking(lc, sd, log, "unprotected", u.Run)
	return u
}

// Last returns the last count, whose time is zero if there is none yet.
func (u *unprotectedCounter) Last() timer.Unprotected {
	return *cmp.Or(u.last.Load(), new(timer.Unprotected))
}

// Run counts until ctx is done, and returns nil. While the broker or the database is
// unreachable, the last count stays.
func (u *unprotectedCounter) Run(ctx context.Context) error {
	for {
		counting, cancel := context.WithTimeout(ctx, countTimeout)
		found, err := u.count(counting)
		cancel()
		next := countInterval
		if err != nil && u.last.Load() == nil {
			next = databasePause // both may be unreachable at the start
		} else if err != nil {
			u.log.DebugContext(ctx, "timers that only a backup protects were not counted", "error", err)
		} else {
			found.At = time.Now().UTC()
			u.last.Store(&found)
		}
		if !pause.For(ctx, max(next, countShare*u.took)) {
			return nil
		}
	}
}

func (u *unprotectedCounter) count(ctx context.Context) (timer.Unprotected, error) {
	u.took = 0
	logs, err := u.logs(ctx) // one that hangs takes all the time
	if err != nil {
		return timer.Unprotected{}, err
	}
	u.noteFull(ctx, logs)
	began := time.Now()
	defer func() { u.took = time.Since(began) }()
	return onlyInBackups(ctx, u.store, oldestKept(logs, time.Now()))
}

// fullInterval is the time between two lines about a broker that is nearly full.
const fullInterval = time.Hour

// noteFull records how full the broker is, judged by its fullest log.
func (u *unprotectedCounter) noteFull(ctx context.Context, logs []broker.Log) {
	var most telemetry.Limit
	for _, l := range logs {
		if used := float64(l.Bytes) / float64(l.MaxBytes); l.MaxBytes > 0 && used >= most.Used {
			most = telemetry.Limit{Name: l.Limit, Used: used}
		}
	}
	u.full.Store(&most)
	if now := time.Now(); 100*most.Used >= nearlyFull && now.Sub(u.said) >= fullInterval {
		u.said = now
		u.log.WarnContext(ctx, "the broker is nearly full: raise its limit, or have it forget sooner", "limit", most.Name, "used_percent", int(100*most.Used))
	}
}

// Full returns the limit of the broker that is closest, which has no name if none is known.
func (u *unprotectedCounter) Full() telemetry.Limit {
	return *cmp.Or(u.full.Load(), new(telemetry.Limit))
}

// A countedStore is a store whose timers are counted.
type countedStore interface {
	Timers() timer.Reader
	RegisteredBefore(ctx context.Context, before time.Time, limit int) (timer.Unprotected, error)
}

// onlyInBackups counts the timers that only a backup protects, if the broker has all commands
// since a time. If it keeps none, which is the zero time, these are all waiting timers.
func onlyInBackups(ctx context.Context, s countedStore, since time.Time) (timer.Unprotected, error) {
	if since.IsZero() {
		st, err := s.Timers().Stats(ctx, "")
		return timer.Unprotected{Timers: st.Scheduled}, err
	}
	only, err := s.RegisteredBefore(ctx, since.Add(-publishDelay), maxUnprotected)
	only.Before = since
	return only, err
}

// oldestKept returns the time since when the broker surely has all commands: a log may have
// lost commands that another log still has. An empty log had no command for as long as it
// keeps messages. If all logs are empty, they have the commands from now on. It returns zero
// if there is no log.
func oldestKept(logs []broker.Log, now time.Time) (since time.Time) {
	for _, l := range logs {
		if l.Oldest.After(since) {
			since = l.Oldest
		}
	}
	if since.IsZero() && len(logs) > 0 {
		return now
	}
	return since
}
