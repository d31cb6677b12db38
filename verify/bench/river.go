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

func (s *riverSystem) usages() (usages, error) { return usagesOf(nil, s.store) }

func (s *riverSystem) job(n int, due time.Time) river.InsertManyParams {
	return river.InsertManyParams{
		Args:       riverArgs{Tenant: string(s.opt.tenant(n)), Call: newID(), DueMS: due.UnixMilli()},
		InsertOpts: &river.InsertOpts{ScheduledAt: due},
	}
}

// await waits for all jobs, and then until the client has marked them completed.
func (s *riverSystem) await(ctx context.Context) error {
	if err := s.sink.awaitPeer(ctx); err != nil {
		return err
	}
	return pause.Until(ctx, func() (done bool, err error) {
		err = s.pool.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM river_job WHERE state <> 'completed')").Scan(&done)
		return done, err
	})
}

func (s *riverSystem) result(workload string) Result {
	return Result{
		Workload: workload,
		Setup:    fmt.Sprintf("River, at most %d workers, fetching every %v", river.QueueNumWorkersMax, riverPoll),
	}
}

// River gives the work of [Drain] to River, a queue on PostgreSQL, whose client
// and worker run in this process.
func River(ctx context.Context, opt Options) (r Result, err error) {
	opt.Store = crash.Postgres
	opt = opt.withDefaults()
	opt.Lead = max(opt.Lead, riverLead)
	s, err := openRiver(ctx, opt, opt.Timers)
	defer func() { err = errors.Join(err, s.shut()) }()
	if err != nil {
		return r, err
	}
	due := timer.RoundUp(time.Now().Add(opt.Lead))
	before, err := s.usages()
	if err != nil {
		return r, err
	}
	began := time.Now()
	inserts, within := errgroup.WithContext(ctx)
	inserts.SetLimit(riverInserts)
	for first := 0; first < opt.Timers; first += riverBatch {
		inserts.Go(func() error {
			var jobs []river.InsertManyParams
			for n := first; n < min(first+riverBatch, opt.Timers); n++ {
				jobs = append(jobs, s.job(n, due))
			}
			_, err := s.client.InsertManyFast(within, jobs)
			return err
		})
	}
	if err := inserts.Wait(); err != nil {
		return r, err
	}
	accepted := time.Now()
	between, err := s.usages()
	if err != nil {
		return r, err
	}
	if !time.Now().Before(due) {
		return r, errors.New("void: the last job was inserted after the due time; give it a longer --lead")
	}
	if err := s.await(ctx); err != nil {
		return r, err
	}
	after, err := s.usages()
	if err != nil {
		return r, err
	}
	r = s.result("river")
	r.Timers = opt.Timers
	r.Accepted, r.Delivered = rate(opt.Timers, accepted.Sub(began)), rate(opt.Timers, s.sink.last().Sub(due))
	r.IntakeCPU, r.FiringCPU = between.since(before, opt.Timers), after.since(between, opt.Timers)
	r.Lateness, err = s.sink.judgePeer(due)
	return r, err
}

// RiverSteady gives the work of [Steady] to River.
func RiverSteady(ctx context.Context, opt Options) (r Result, err error) {
	opt.Store = crash.Postgres
	opt = opt.withDefaults()
	total := opt.steadyTimers()
	s, err := openRiver(ctx, opt, total)
	defer func() { err = errors.Join(err, s.shut()) }()
	if err != nil {
		return r, err
	}
	before, err := s.usages()
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := s.keep(ctx, total); err != nil {
		return r, err
	}
	if err := s.await(ctx); err != nil {
		return r, err
	}
	after, err := s.usages()
	if err != nil {
		return r, err
	}
	r = s.result("river steady")
	r.Timers, r.Rate, r.CPU = total, opt.Rate, after.since(before, total)
	r.Lateness, err = s.sink.judgePeer(began.Add(warmUp + riverLead + leadMax))
	return r, err
}

// keep inserts jobs at the rate, each due six seconds later or more, within which River's
// scheduler comes by.
func (s *riverSystem) keep(ctx context.Context, total int) error {
	inserts, within := errgroup.WithContext(ctx)
	began, pace := time.Now(), time.NewTicker(tick)
	defer pace.Stop()
	for sent := 0; sent < total && within.Err() == nil; {
		now := time.Now()
		var jobs []river.InsertManyParams
		for asked := min(total, int(now.Sub(began).Seconds()*float64(s.opt.Rate))); sent < asked; sent++ {
			jobs = append(jobs, s.job(sent, timer.RoundUp(now.Add(riverLead+time.Duration(rand.Int64N(int64(leadMax)))))))
		}
		if len(jobs) > 0 {
			inserts.Go(func() error {
				_, err := s.client.InsertManyFast(within, jobs)
				return err
			})
		}
		<-pace.C
	}
	return inserts.Wait()
}
