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

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// The program that is killed: it books what it reads, one number a line, handles what
// is due, and prints what it does. At the end of its input it stops when all is done.
//
//	17 ─► booked 17 … entered 17
const (
	programEnv = "ONDUE_DATABASE" // its database; set in the process that is the program
	modeEnv    = "ONDUE_MODE"

	booked  = "booked "
	entered = "entered "
)

const (
	longestDue  = 50 * time.Millisecond // after the booking
	longestWork = 4 * time.Millisecond  // before and after what a handler writes
)

// program runs until in ends and all is done.
func program(path, mode string, in io.Reader, out io.Writer) error {
	if mode == shopMode {
		return runShop(path, in, out)
	}
	p := &printer{out: out}
	opt := app.OnDueOptions{MinDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond}
	register := func(timers *app.Timers, db *sql.DB) {
		if mode == "OnDueTx" {
			timers.OnDueTx("", func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error { return handle(ctx, p, tx, e) }, opt)
			return
		}
		timers.OnDue("", func(ctx context.Context, e timer.DueTimeReached) error { return handle(ctx, p, db, e) }, opt)
	}
	return runApp(path, handledTable, slog.LevelWarn, register, func(ctx context.Context, timers *app.Timers) error { return book(ctx, timers, p, in) })
}

// handledTable is what handlers write into.
const handledTable = `CREATE TABLE IF NOT EXISTS handled (call TEXT NOT NULL) STRICT`

// runApp runs an app on a database, which it makes with a table of the program's own,
// until work is done and nothing waits any more.
func runApp(path, table string, logs slog.Level, register func(*app.Timers, *sql.DB), work func(context.Context, *app.Timers) error) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db, err := open(ctx, path, table)
	if err != nil {
		return err
	}
	defer db.Close()
	store := sqlite.New(db, sqlite.Options{})
	a, err := app.New(store, nil, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logs})), app.Options{})
	if err != nil {
		return err
	}
	register(a.Timers(), db)
	ended := make(chan error, 1)
	go func() {
		ended <- a.Run(ctx)
		stop()
	}()
	err = errors.Join(work(ctx, a.Timers()), settled(ctx, store))
	stop()
	return errors.Join(err, <-ended)
}

// open opens the database of a program, which has a table of its own.
func open(ctx context.Context, path, table string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, table)
	return db, errors.Join(err, sqlite.Migrate(ctx, db))
}

// book schedules a timer for each line. Its version follows from the number: what was
// booked before a kill may be booked again.
func book(ctx context.Context, timers *app.Timers, p *printer, in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		err = timers.Schedule(ctx, client.Timer{
			TenantID: "acme", ServiceCallID: timer.ServiceCallID(lines.Text()), After: rand.N(longestDue),
			Version: timer.Version{TimestampMS: 1_700_000_000_000 + int64(n), CommandID: "command-" + lines.Text()},
		})
		if err != nil && !errors.Is(err, timer.ErrReached) {
			return err
		}
		p.line(booked + lines.Text())
	}
	return lines.Err()
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// handle writes a row for an event, and takes a while before and after.
func handle(ctx context.Context, p *printer, to execer, e timer.DueTimeReached) error {
	p.line(entered + string(e.ServiceCallID))
	pause.For(ctx, rand.N(longestWork))
	_, err := to.ExecContext(ctx, `INSERT INTO handled (call) VALUES (?)`, string(e.ServiceCallID))
	pause.For(ctx, rand.N(longestWork))
	return err
}

// settled waits until nothing waits any more.
func settled(ctx context.Context, store *sqlite.Store) error {
	for {
		s, err := store.Stats(ctx, "")
		if err != nil || s.Scheduled+s.Outbox == 0 {
			return err
		}
		if !pause.For(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// A printer prints whole lines.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *printer) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.out, text)
}

// number returns the number after the word of a line.
func number(line, word string) (int, bool) {
	text, ok := strings.CutPrefix(line, word)
	n, err := strconv.Atoi(text)
	return n, ok && err == nil
}
