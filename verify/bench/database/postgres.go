package database

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/store/postgres"
)

// dropLimit is how long it may take to drop a database.
const dropLimit = 2 * time.Minute

// A remote is a PostgreSQL database.
type remote struct {
	server, name, url string
	db                *sql.DB // to read
	meter             *meter
}

func newPostgres(ctx context.Context, opt Options) (_ Database, err error) {
	if opt.URL == "" {
		return nil, errors.New("the URL of a PostgreSQL server is missing: --db-url, or TIMER_TEST_POSTGRES")
	}
	r := &remote{server: opt.URL, name: "timer_bench_" + strings.ToLower(rand.Text()[:10])}
	if r.url, err = with(opt.URL, r.name, "timer-service"); err != nil {
		return nil, err
	}
	if err := r.atServer(ctx, "CREATE DATABASE "+r.name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Drop())
		}
	}()
	s, err := postgres.Open(ctx, r.url, postgres.Options{Durability: postgres.Strict}) // which migrates
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	looking, err := with(opt.URL, r.name, "timer-bench")
	if err != nil {
		return nil, err
	}
	if r.db, err = postgres.Connect(looking); err != nil {
		return nil, err
	}
	r.meter = newMeter(r.db)
	return r, nil
}

// with returns a URL with another database, and with the name of who connects.
func with(text, name, application string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("the URL of the PostgreSQL server can't be read") // it may hold a password
	}
	q := u.Query()
	q.Set("application_name", application)
	u.Path, u.RawQuery = "/"+name, q.Encode()
	return u.String(), nil
}

// atServer runs a statement in the database of the URL that was given.
func (r *remote) atServer(ctx context.Context, text string) error {
	db, err := postgres.Connect(r.server)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, text); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// Settings name the URL.
func (r *remote) Settings() map[string]string { return map[string]string{"TIMER_DB_URL": r.url} }

// OpenReader connects for reading. What that costs does not count.
func (r *remote) OpenReader(ctx context.Context) (Reader, error) {
	looking, err := with(r.server, r.name, "timer-bench")
	if err != nil {
		return nil, err
	}
	return postgres.OpenReader(ctx, looking)
}

// Fill puts timers in, and makes the indexes when they are all there. It leaves
// no work for vacuum, nor pages for the checkpointer.
func (r *remote) Fill(ctx context.Context, load Load, progress io.Writer) error {
	restore, err := dropIndexes(ctx, r.db, query("postgres/indexes"))
	if err != nil {
		return fmt.Errorf("fill the database: %w", err)
	}
	if err := load.steps(progress, func(first, last int) error {
		_, err := r.db.ExecContext(ctx, query("postgres/fill"),
			int64(first), int64(last), load.Tenant, int64(load.Tenants), load.From, load.seconds())
		return err
	}); err != nil {
		return fmt.Errorf("fill the database: %w", err)
	}
	if _, err := r.db.ExecContext(ctx, query("postgres/count"), load.Tenant, int64(load.Timers), int64(load.Tenants)); err != nil {
		return fmt.Errorf("count the timers: %w", err)
	}
	if err := restore(progress); err != nil {
		return err
	}
	for _, text := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := r.db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// Usage adds up what the processes have used that worked for the database.
func (r *remote) Usage(ctx context.Context) (time.Duration, error) { return r.meter.read(ctx) }

// Drop ends the connections that are left.
func (r *remote) Drop() error {
	var err error
	if r.meter != nil {
		r.meter.stop()
		err = r.db.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropLimit)
	defer cancel()
	return errors.Join(err, r.atServer(ctx, "DROP DATABASE "+r.name+" WITH (FORCE)"))
}
