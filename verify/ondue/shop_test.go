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
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// The program that is killed: a shop that books orders and their timers in one
// transaction, cancels every third, and has the others expire. It also reminds of each order. It
// reads numbers of orders, one a line, and prints what it does. At the end of its input it stops
// when all is done.
//
//	17 ─► begun 17 (in the transaction) … booked 17 (after it) … entered 17 (a reminder)
const (
	databaseEnv = "ONDUE_DATABASE" // its database; set in the process that is the program

	begun   = "begun"
	booked  = "booked"
	entered = "entered"

	clerks      = 3                     // goroutines that book
	longestDue  = 50 * time.Millisecond // after the booking
	longestWork = 4 * time.Millisecond  // before and after what a handler or a clerk writes
)

var errChangedMind = errors.New("no order after all")

// A shop books orders.
type shop struct {
	timers *app.Timers
	db     *sql.DB
	mu     sync.Mutex
	out    io.Writer
}

// openShop opens the database of the shop.
func openShop(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, state TEXT NOT NULL, expired INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE IF NOT EXISTS reminders (id TEXT NOT NULL) STRICT`)
	return db, errors.Join(err, sqlite.Migrate(ctx, db))
}

// runShop runs until in ends and all is done.
func runShop(path string, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := openShop(ctx, path)
	if err != nil {
		return err
	}
	defer db.Close()
	store := sqlite.New(db, sqlite.Options{})
	a, err := app.New(store, nil, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})), app.Options{})
	if err != nil {
		return err
	}
	s := &shop{timers: a.Timers(), db: db, out: out}
	s.timers.OnDueTx("", expire, app.OnDueOptions{})
	s.timers.OnDue("remind-", s.remind, app.OnDueOptions{MinDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) // whatever still waits for its input
		}
	}()
	err = errors.Join(s.serve(ctx, in), pause.Until(ctx, func() (bool, error) {
		s, err := store.Stats(ctx, "")
		return s.Scheduled+s.Outbox == 0, err
	}))
	stop()
	<-ended
	return err
}

// say prints a whole line.
func (s *shop) say(word, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, word, id)
}

// serve books what it reads.
func (s *shop) serve(ctx context.Context, in io.Reader) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(clerks)
	lines := bufio.NewScanner(in)
	for lines.Scan() && ctx.Err() == nil {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		work.Go(func() error { return s.order(ctx, n) })
	}
	return errors.Join(lines.Err(), work.Wait())
}

// order books an order, after a transaction that is rolled back for some of them, and
// cancels every third.
func (s *shop) order(ctx context.Context, n int) error {
	id := strconv.Itoa(n)
	if n%5 == 0 {
		if err := s.book(ctx, id, errChangedMind); !errors.Is(err, errChangedMind) {
			return errors.Join(err, fmt.Errorf("order %s was booked all the same", id))
		}
	}
	if err := s.book(ctx, id, nil); err != nil {
		return err
	}
	if n%3 == 0 {
		if err := s.cancel(ctx, id); err != nil && !errors.Is(err, timer.ErrReached) {
			return err
		}
	}
	s.say(booked, id)
	return nil
}

// book stores an order and its timers, unless that was done before a kill.
func (s *shop) book(ctx context.Context, id string, end error) error {
	return s.timers.Tx(ctx, func(tx *sql.Tx) error {
		s.say(begun, id)
		made, err := changed(tx.ExecContext(ctx, `INSERT INTO orders (id, state) VALUES (?, 'booked') ON CONFLICT DO NOTHING`, id))
		if err != nil || !made {
			return errors.Join(err, end)
		}
		pause.For(ctx, rand.N(longestWork))
		for _, call := range []string{id, "remind-" + id} {
			err = errors.Join(err, s.timers.ScheduleTx(ctx, tx, client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call), After: rand.N(longestDue)}))
		}
		pause.For(ctx, rand.N(longestWork))
		return errors.Join(err, end)
	})
}

// cancel takes an order and its timer back, unless the timer was first.
func (s *shop) cancel(ctx context.Context, id string) error {
	return s.timers.Tx(ctx, func(tx *sql.Tx) error {
		s.say(begun, id)
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

// remind writes a row for an event, and takes a while before and after.
func (s *shop) remind(ctx context.Context, e timer.DueTimeReached) error {
	id := strings.TrimPrefix(string(e.ServiceCallID), "remind-")
	s.say(entered, id)
	pause.For(ctx, rand.N(longestWork))
	_, err := s.db.ExecContext(ctx, `INSERT INTO reminders (id) VALUES (?)`, id)
	pause.For(ctx, rand.N(longestWork))
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
