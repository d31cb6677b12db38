package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/crash"
)

// Settings of River for throughput, near those of its own benchmark. Its scheduler
// makes jobs available every five seconds, for the five seconds ahead: what is
// scheduled earlier than that is fetched when it is due.
const (
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverPool     = 10 // connections
	riverInserts  = 2  // at the same time, enough to keep two cores busy
	riverBatch    = 2000
	riverLead     = 6 * time.Second // at least, from the last insert to the due time
)

type riverArgs struct {
	Tenant, Call string
	DueMS        int64
}

func (riverArgs) Kind() string { return "timer" }

// riverWorker is the consumer: it notes when a job came.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	sink *sink
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	at := time.Now()
	w.sink.take(strconv.FormatInt(job.ID, 10), arrival{at: at, due: time.UnixMilli(job.Args.DueMS)})
	return nil
}

// riverSystem is a client of River, on a PostgreSQL server of its own.
type riverSystem struct {
	opt    Options
	store  *store
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	sink   *sink
	close  []func() error // in reverse
}

func openRiver(ctx context.Context, opt Options, timers int) (s *riverSystem, err error) {
	s = &riverSystem{opt: opt, sink: newSink(timers)}
	dir, err := os.MkdirTemp("", "timer-bench-")
	if err != nil {
		return s, err
	}
	s.close = append(s.close, func() error { return os.RemoveAll(dir) })
	if s.store, err = openStore(ctx, crash.Postgres, dir); err != nil {
		return s, err
	}
	s.close = append(s.close, s.store.close)
	settings, err := pgxpool.ParseConfig(s.store.at)
	if err != nil {
		return s, err
	}
	settings.MaxConns = riverPool
	if s.pool, err = pgxpool.NewWithConfig(ctx, settings); err != nil {
		return s, err
	}
	s.close = append(s.close, func() error { s.pool.Close(); return nil })
	driver := riverpgxv5.New(s.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return s, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return s, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{sink: s.sink})
	s.client, err = river.NewClient(driver, &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: workers,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: river.QueueNumWorkersMax}},
		FetchCooldown: riverCooldown, FetchPollInterval: riverPoll,
	})
	if err != nil {
		return s, err
	}
	if err := s.client.Start(ctx); err != nil {
		return s, err
	}
	s.close = append(s.close, func() error { return s.client.Stop(context.WithoutCancel(ctx)) })
	return s, nil
}

func (s *riverSystem) shut() error { return closeAll(s.close) }

func (s *riverSystem) job(n int, due time.Time) river.InsertManyParams {
	return river.InsertManyParams{
		Args:       riverArgs{Tenant: string(s.opt.tenant(n)), Call: newID(), DueMS: due.UnixMilli()},
		InsertOpts: &river.InsertOpts{ScheduledAt: due},
	}
}

// peer waits for all jobs, and then until the client has marked them completed.
func (s *riverSystem) peer() peer {
	return peer{
		sink: s.sink, lead: riverLead, usages: func() (usages, error) { return usagesOf(nil, s.store) },
		rest: func(ctx context.Context) error {
			return pause.Until(ctx, func() (done bool, err error) {
				err = s.pool.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM river_job WHERE state <> 'completed')").Scan(&done)
				return done, err
			})
		},
	}
}

var riverSetup = fmt.Sprintf("River, at most %d workers, fetching every %v", river.QueueNumWorkersMax, riverPoll)

// insert inserts the jobs from one number to below another.
func (s *riverSystem) insert(ctx context.Context, first, next int, due func() time.Time) error {
	var jobs []river.InsertManyParams
	for n := first; n < next; n++ {
		jobs = append(jobs, s.job(n, due()))
	}
	_, err := s.client.InsertManyFast(ctx, jobs)
	return err
}

// River gives the work of [Drain] to River, a queue on PostgreSQL, whose client
// and worker run in this process.
func River(ctx context.Context, opt Options) (r Result, err error) {
	opt.Store = crash.Postgres
	opt = opt.withDefaults()
	s, err := openRiver(ctx, opt, opt.Timers)
	defer func() { err = errors.Join(err, s.shut()) }()
	if err != nil {
		return r, err
	}
	r, err = s.peer().drain(ctx, opt, func(due time.Time) error {
		inserts, within := errgroup.WithContext(ctx)
		inserts.SetLimit(riverInserts)
		for first := 0; first < opt.Timers; first += riverBatch {
			inserts.Go(func() error {
				return s.insert(within, first, min(first+riverBatch, opt.Timers), func() time.Time { return due })
			})
		}
		return inserts.Wait()
	})
	r.Workload, r.Setup = "river", riverSetup
	return r, err
}

// RiverSteady gives the work of [Steady] to River. Each job is due six seconds later or more, within
// which River's scheduler comes by.
func RiverSteady(ctx context.Context, opt Options) (r Result, err error) {
	opt.Store = crash.Postgres
	opt = opt.withDefaults()
	s, err := openRiver(ctx, opt, opt.steadyTimers())
	defer func() { err = errors.Join(err, s.shut()) }()
	if err != nil {
		return r, err
	}
	r, err = s.peer().steady(ctx, opt, func(total int) error {
		return paced(ctx, opt.Rate, func(sent int) bool { return sent < total }, func(now time.Time, first, next int) func(context.Context) error {
			due := func() time.Time {
				return timer.RoundUp(now.Add(riverLead + time.Duration(rand.Int64N(int64(leadMax)))))
			}
			return func(ctx context.Context) error { return s.insert(ctx, first, next, due) }
		})
	})
	r.Workload, r.Setup = "river steady", riverSetup
	return r, err
}
