package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/event-service-agent/timer-service/verify/services/judge"
)

// Settings of River for work that takes less than a second.
const (
	riverPoll       = 20 * time.Millisecond
	riverCooldown   = 2 * time.Millisecond
	riverJobTimeout = 5 * time.Second
	riverRescue     = 10 * time.Second // jobs of a worker that died run again; an hour by default
	riverPool       = 20
)

type riverArgs struct {
	Key string `json:"key"`
	Op  int    `json:"op"`
}

// Kind implements [river.JobArgs].
func (riverArgs) Kind() string { return "timer" }

// riverJobs are scheduled jobs of River. To move one is to cancel it and insert another one in
// one transaction.
type riverJobs struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]

	mu   sync.Mutex
	jobs map[int]int64 // ids of jobs, by command
}

func openRiver(ctx context.Context, w *world) (service, error) {
	at, err := w.startPostgres(ctx)
	if err != nil {
		return nil, err
	}
	s := &riverJobs{jobs: make(map[int]int64)}
	toClient, err := w.through("client to PostgreSQL", at)
	if err != nil {
		return nil, err
	}
	if s.pool, err = riverConnect(ctx, postgresURL(toClient)); err != nil {
		return nil, err
	}
	w.onClose(func() error { s.pool.Close(); return nil })
	driver := riverpgxv5.New(s.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	if s.client, err = river.NewClient(driver, &river.Config{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, err
	}
	toWorker, err := w.through("worker to PostgreSQL", at)
	if err != nil {
		return nil, err
	}
	worker, err := w.worker("river", postgresURL(toWorker))
	if err != nil {
		return nil, err
	}
	w.onClose(worker.kill)
	w.harm.processes = append(w.harm.processes, worker.part())
	w.harm.whole = func() bool { return !w.rec.overdue(time.Second) } // a leader that died is replaced after 15 s
	return s, worker.start(ctx)
}

func riverConnect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	settings, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	settings.MaxConns, settings.ConnConfig.ConnectTimeout = riverPool, tryTimeout
	return pgxpool.NewWithConfig(ctx, settings)
}

func (s *riverJobs) do(ctx context.Context, c command) (a answer, err error) {
	s.mu.Lock()
	before := s.jobs[c.before]
	s.mu.Unlock()
	var id int64
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if c.before != 0 {
			job, err := s.client.JobCancelTx(ctx, tx, before)
			if err != nil {
				return err
			}
			if job.State != rivertype.JobStateCancelled {
				return errRunning
			}
		}
		if c.do == judge.Cancel {
			return nil
		}
		job, err := s.client.InsertTx(ctx, tx, riverArgs{c.key, c.op}, &river.InsertOpts{
			ScheduledAt: c.due, UniqueOpts: river.UniqueOpts{ByArgs: true}, // so a command may be sent again
		})
		if err == nil {
			id = job.Job.ID
		}
		return err
	})
	if errors.Is(err, errRunning) {
		return refused, nil
	}
	if err == nil {
		s.mu.Lock()
		s.jobs[c.op] = id
		s.mu.Unlock()
	}
	return inForce, err
}

// errRunning says that a job was not canceled, since it runs or has run. The transaction is
// rolled back.
var errRunning = errors.New("the job runs, or has run")

// riverWorker is the consumer.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
}

// Work implements [river.Worker].
func (riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	report(job.Args.Key, job.Args.Op, strconv.FormatInt(job.ID, 10))
	return nil
}

// workRiver works jobs until it is told to end.
func workRiver(ctx context.Context, url string) error {
	pool, err := riverConnect(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	all := river.NewWorkers()
	river.AddWorker(all, riverWorker{})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), Workers: all,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1000}},
		FetchCooldown: riverCooldown, FetchPollInterval: riverPoll, JobTimeout: riverJobTimeout, RescueStuckJobsAfter: riverRescue,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "ready")
	<-ctx.Done()
	return nil
}
