package ondue

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// The other program that is killed: a shop that books orders and their timers in one
// transaction, cancels every third, and has the others expire. It reads numbers of
// orders, one a line, and prints what it does. At the end of its input it stops when
// all is done.
//
//	17 ─► begun 17 (in the transaction) … booked 17 (after it)
const (
	shopMode = "Orders"
	begun    = "begun "

	clerks = 3 // goroutines that book
)

var errChangedMind = errors.New("no order after all")

// A shop books orders.
type shop struct {
	timers  *app.Timers
	printer *printer
}

// runShop runs until in ends and all is done.
func runShop(path string, in io.Reader, out io.Writer) error {
	s := &shop{printer: &printer{out: out}}
	register := func(timers *app.Timers, _ *sql.DB) {
		s.timers = timers
		timers.OnDueTx("", expire, app.OnDueOptions{})
	}
	return runApp(path, ordersTable, slog.LevelError, register, func(ctx context.Context, _ *app.Timers) error { return s.serve(ctx, in) })
}

// ordersTable is that of the shop.
const ordersTable = `CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, state TEXT NOT NULL, expired INTEGER NOT NULL DEFAULT 0) STRICT`

// serve books what it reads.
func (s *shop) serve(ctx context.Context, in io.Reader) error {
	numbers := make(chan int)
	failed := make(chan error, clerks)
	var working sync.WaitGroup
	for range clerks {
		working.Go(func() {
			for n := range numbers {
				if err := s.order(ctx, n); err != nil {
					failed <- fmt.Errorf("order %d: %w", n, err)
					break
				}
			}
		})
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() && len(failed) == 0 {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		select {
		case numbers <- n:
		case err := <-failed:
			return err
		}
	}
	close(numbers)
	working.Wait()
	close(failed)
	return errors.Join(lines.Err(), <-failed)
}

// order books an order, after a transaction that is rolled back for some of them, and
// cancels every third.
func (s *shop) order(ctx context.Context, n int) error {
	if n%5 == 0 {
		if err := s.book(ctx, n, errChangedMind); !errors.Is(err, errChangedMind) {
			return errors.Join(err, errors.New("was booked all the same"))
		}
	}
	if err := s.book(ctx, n, nil); err != nil {
		return err
	}
	if n%3 == 0 {
		if err := s.cancel(ctx, n); err != nil && !errors.Is(err, timer.ErrReached) {
			return err
		}
	}
	s.printer.line(booked + strconv.Itoa(n))
	return nil
}

// book stores an order and its timer, unless that was done before a kill.
func (s *shop) book(ctx context.Context, n int, end error) error {
	id := strconv.Itoa(n)
	return s.timers.Tx(ctx, func(tx *sql.Tx) error {
		s.printer.line(begun + id)
		made, err := changed(tx.ExecContext(ctx, `INSERT INTO orders (id, state) VALUES (?, 'booked') ON CONFLICT DO NOTHING`, id))
		if err != nil || !made {
			return errors.Join(err, end)
		}
		pause.For(ctx, rand.N(longestWork))
		err = s.timers.ScheduleTx(ctx, tx, client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(id), After: rand.N(longestDue)})
		pause.For(ctx, rand.N(longestWork))
		return errors.Join(err, end)
	})
}

// cancel takes an order and its timer back, unless the timer was first.
func (s *shop) cancel(ctx context.Context, n int) error {
	id := strconv.Itoa(n)
	return s.timers.Tx(ctx, func(tx *sql.Tx) error {
		s.printer.line(begun + id)
		if _, err := tx.ExecContext(ctx, `UPDATE orders SET state = 'canceled' WHERE id = ?`, id); err != nil {
			return err
		}
		pause.For(ctx, rand.N(longestWork))
		err := s.timers.CancelTx(ctx, tx, timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(id)})
		pause.For(ctx, rand.N(longestWork))
		return err
	})
}

// expire ends an order whose timer has fired.
func expire(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
	was, err := changed(tx.ExecContext(ctx, `UPDATE orders SET state = 'expired', expired = expired + 1 WHERE id = ? AND state = 'booked'`, string(e.ServiceCallID)))
	if err == nil && !was {
		return fmt.Errorf("%w: there is no such order to expire: %s", timer.ErrInvalid, e.ServiceCallID) // is parked, which is found
	}
	return err
}

// changed reports whether a statement changed a row.
func changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}
