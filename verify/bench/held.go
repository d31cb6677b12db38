package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/bench/database"
)

// HeldOptions say for how long [Held] does what.
type HeldOptions struct {
	Clean    time.Duration // before the snapshot, and behind its end
	Held     time.Duration // the snapshot is held; after two thirds the service is restarted
	Settle   time.Duration // after the end of the snapshot, before the database counts as clean; default a minute
	Deferred int           // events that the broker refuses again and again
}

// A Snapshot says how late timers were before a snapshot was held, meanwhile, in the minute
// after its end, and later.
type Snapshot struct {
	Name   string
	Timers int
	Late   []*Lateness // in the order above
}

// Held measures a steady load on PostgreSQL while a transaction of somebody else holds a
// snapshot, so that vacuum removes no row that is dead; then the same of River. An error
// that begins with "void" says that the figures mean nothing.
func Held(ctx context.Context, opt Options, held HeldOptions) (all []Snapshot, err error) {
	opt.Store = database.Postgres
	opt = opt.withDefaults()
	held.Settle = cmp.Or(held.Settle, time.Minute)
	for _, measure := range []func(context.Context, Options, HeldOptions) (Snapshot, error){heldService, heldRiver} {
		one, err := measure(ctx, opt, held)
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

func (h HeldOptions) total(rate int) int {
	return int(float64(rate) * (warmUp + h.Clean + h.Held + h.Settle + h.Clean).Seconds())
}

// windows are those of a [Snapshot], from the begin of the load on.
func (h HeldOptions) windows(began time.Time) []window {
	hold := began.Add(warmUp + leadMax + h.Clean)
	end := hold.Add(h.Held)
	return []window{
		{began.Add(warmUp + leadMax), hold}, {hold, end}, {end, end.Add(h.Settle)}, {end.Add(h.Settle), end.Add(h.Settle + h.Clean)},
	}
}

func heldService(ctx context.Context, opt Options, h HeldOptions) (r Snapshot, err error) {
	s := newSystem(opt)
	defer func() { err = errors.Join(err, s.shut()) }()
	d, err := opt.database(ctx)
	if err != nil {
		return r, err
	}
	s.close = append(s.close, d.Drop)
	url := d.Settings()["TIMER_DB_URL"]
	if err := refused(ctx, url, h.Deferred); err != nil {
		return r, err
	}
	if err := s.serve(ctx, d); err != nil {
		return r, err
	}
	k := newSink(h.total(opt.Rate))
	if err := k.listen(ctx, s); err != nil {
		return r, err
	}
	began := time.Now()
	work, within := errgroup.WithContext(ctx)
	work.Go(func() error { return h.hold(within, url, began, opt, func() error { return s.restart(ctx) }) })
	work.Go(func() error { return h.retry(within, url, began) })
	commands, err := s.keep(within, func(sent int) bool { return sent < h.total(opt.Rate) })
	if err := errors.Join(work.Wait(), err); err != nil {
		return r, err
	}
	if err := k.await(ctx, s, 10*time.Second); err != nil {
		return r, err
	}
	if err := s.stillThere(ctx, url, h.Deferred); err != nil {
		return r, err
	}
	r.Name, r.Timers = "timer-service", len(commands)
	r.Late, err = k.judgeEach(commands, h.windows(began)...)
	return r, err
}

func heldRiver(ctx context.Context, opt Options, h HeldOptions) (r Snapshot, err error) {
	s, err := openRiver(ctx, opt, h.total(opt.Rate))
	defer func() { err = errors.Join(err, s.shut()) }()
	if err != nil {
		return r, err
	}
	began := time.Now()
	work, within := errgroup.WithContext(ctx)
	// River's jobs are due six seconds later than timers are.
	url := s.database.Settings()["TIMER_DB_URL"]
	work.Go(func() error { return h.hold(within, url, began.Add(riverLead), opt, func() error { return nil }) })
	if err := errors.Join(s.keep(within, h.total(opt.Rate)), work.Wait()); err != nil {
		return r, err
	}
	if err := s.await(ctx); err != nil {
		return r, err
	}
	r.Name, r.Timers = "River", h.total(opt.Rate)
	r.Late, err = s.judgeEach(h.windows(began.Add(riverLead))...)
	return r, err
}

// hold holds a snapshot in the second window, and calls midway after two thirds of it.
func (h HeldOptions) hold(ctx context.Context, url string, began time.Time, opt Options, midway func() error) error {
	span := h.windows(began)[1]
	if err := until(ctx, span.from); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"); err != nil {
		return err
	}
	fmt.Fprintln(opt.Progress, "a snapshot is held for", h.Held)
	if err := until(ctx, span.from.Add(h.Held*2/3)); err != nil {
		return err
	}
	if err := midway(); err != nil {
		return err
	}
	if err := until(ctx, span.until); err != nil {
		return err
	}
	fmt.Fprintln(opt.Progress, "the snapshot is let go")
	return nil
}

// retry sends refused events again, each time that they are parked, until the load ends.
func (h HeldOptions) retry(ctx context.Context, url string, began time.Time) error {
	for time.Until(h.windows(began)[3].until) > 0 {
		if err := until(ctx, time.Now().Add(10*time.Second)); err != nil {
			return err
		}
		if err := execute(ctx, url, `WITH parked AS (DELETE FROM timer_outbox_parked RETURNING *)
INSERT INTO timer_outbox (appended_at, shard, id, payload, headers) SELECT now(), 0, id, payload, headers FROM parked`); err != nil {
			return err
		}
	}
	return nil
}

func until(ctx context.Context, at time.Time) error {
	if !pause.For(ctx, time.Until(at)) {
		return ctx.Err()
	}
	return nil
}

// refused puts events into the outbox that the broker refuses: their tenant's name is no part
// of a subject. They are deferred, and parked after some 40 seconds.
func refused(ctx context.Context, url string, n int) error {
	return execute(ctx, url, `INSERT INTO timer_outbox (appended_at, shard, id, payload, headers)
SELECT now(), 0, 'refused-' || n, '{}', '{"tenantId": "no subject ' || n % 10 || '"}' FROM generate_series(1, $1) AS n`, n)
}

// execute runs a statement on a connection of its own.
func execute(ctx context.Context, url, statement string, args ...any) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement, args...)
	return errors.Join(err, conn.Close(ctx))
}

// stillThere returns an error unless all refused events are still there.
func (s *system) stillThere(ctx context.Context, url string, n int) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var left int
	err = conn.QueryRow(ctx, `SELECT count(*) FROM (
SELECT id FROM timer_outbox UNION ALL SELECT id FROM timer_outbox_deferred UNION ALL SELECT id FROM timer_outbox_parked) AS all_events WHERE id LIKE 'refused-%'`).Scan(&left)
	if err == nil && left != n {
		err = fmt.Errorf("void: %d refused events are left, not %d", left, n)
	}
	return err
}

// WriteHeld writes a table in Markdown.
func WriteHeld(out io.Writer, all []Snapshot) {
	fmt.Fprintln(out, "| | timers | p50 / p99 ms before | held | the minute after | later |")
	fmt.Fprintln(out, "| --- | ---: | ---: | ---: | ---: | ---: |")
	for _, s := range all {
		late := make([]string, 4)
		for n, l := range s.Late {
			if l != nil {
				late[n] = fmt.Sprintf("%.1f / %.1f", l.P50, l.P99)
			}
		}
		fmt.Fprintf(out, "| %s | %d | %s |\n", s.Name, s.Timers, strings.Join(late, " | "))
	}
}
