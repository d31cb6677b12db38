package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// A shop has orders, which expire unless they are paid in time.
type shop struct {
	pool   *pgxpool.Pool
	store  *postgres.Store
	timers *app.Timers
	out    io.Writer
}

// order stores an order and its timer, or neither.
func (s *shop) order(ctx context.Context, id string, after time.Duration) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders (id, state) VALUES ($1, 'booked')`, id); err != nil {
			return err
		}
		return s.timers.In(s.store.JoinPgx(tx)).Schedule(ctx, client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(id), After: after})
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is booked\n", id)
	return nil
}

// pay notes that an order is paid, and cancels its timer. Too late is [timer.ErrReached].
func (s *shop) pay(ctx context.Context, id string) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE orders SET state = 'paid' WHERE id = $1`, id); err != nil {
			return err
		}
		return s.timers.In(s.store.JoinPgx(tx)).Cancel(ctx, timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(id)})
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is paid\n", id)
	return nil
}

// expire ends an order that was not paid. If the event comes again there is nothing to
// change.
func (s *shop) expire(ctx context.Context, e timer.DueTimeReached) error {
	changed, err := s.pool.Exec(ctx, `UPDATE orders SET state = 'expired' WHERE id = $1 AND state = 'booked'`, e.ServiceCallID)
	if err == nil && changed.RowsAffected() > 0 {
		fmt.Fprintf(s.out, "%s has expired, %d ms late\n", e.ServiceCallID, e.Lateness().Milliseconds())
	}
	return err
}
