package interop_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"testing"
	"time"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// A host books an order with its timer in a transaction of its library, and ends the order
// in that of the handler.
type host struct {
	book func(ctx context.Context, timers *app.Timers, order string, fail error) error
	end  func(ctx context.Context, tx *sql.Tx, order string) error
}

const (
	booking = `INSERT INTO orders (id, state) VALUES ($1, 'booked')`
	ending  = `UPDATE orders SET state = 'ended' WHERE id = $1`
)

func due(order string) client.Timer {
	return client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(order), After: time.Millisecond}
}

func ofSqlx(x *sqlx.DB) host {
	return host{
		book: func(ctx context.Context, timers *app.Timers, order string, fail error) error {
			tx, err := x.BeginTxx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(ctx, booking, order); err != nil {
				return err
			}
			if err := timers.ScheduleTx(ctx, tx.Tx, due(order)); err != nil {
				return err
			}
			if fail != nil {
				return fail
			}
			return tx.Commit()
		},
		end: func(ctx context.Context, tx *sql.Tx, order string) error {
			var is struct{ State string }
			in := &sqlx.Tx{Tx: tx, Mapper: x.Mapper}
			if err := in.GetContext(ctx, &is, `SELECT state FROM orders WHERE id = $1`, order); err != nil {
				return err
			}
			_, err := in.ExecContext(ctx, ending, order)
			return err
		},
	}
}

func ofGorm(g *gorm.DB) host {
	return host{
		book: func(ctx context.Context, timers *app.Timers, order string, fail error) error {
			return g.WithContext(ctx).Transaction(func(g *gorm.DB) error {
				if err := g.Exec(booking, order).Error; err != nil {
					return err
				}
				tx, ok := g.Statement.ConnPool.(*sql.Tx)
				if !ok {
					return errors.New("gorm was opened with PrepareStmt, which hides the transaction")
				}
				if err := timers.ScheduleTx(ctx, tx, due(order)); err != nil {
					return err
				}
				return fail
			})
		},
		end: func(ctx context.Context, tx *sql.Tx, order string) error {
			g := g.Session(&gorm.Session{NewDB: true, Context: ctx, SkipDefaultTransaction: true})
			g.Statement.ConnPool = tx
			return g.Exec(ending, order).Error
		},
	}
}

// ofEnt stands for a generated client: ent.NewClient(ent.Driver(in(tx))).
func ofEnt() host {
	in := func(tx *sql.Tx) *entsql.Driver {
		return entsql.NewDriver(dialect.Postgres, entsql.Conn{ExecQuerier: tx})
	}
	return host{
		book: func(ctx context.Context, timers *app.Timers, order string, fail error) error {
			return timers.Tx(ctx, func(tx *sql.Tx) error {
				if err := in(tx).Exec(ctx, booking, []any{order}, nil); err != nil {
					return err
				}
				if err := timers.ScheduleTx(ctx, tx, due(order)); err != nil {
					return err
				}
				return fail
			})
		},
		end: func(ctx context.Context, tx *sql.Tx, order string) error {
			return in(tx).Exec(ctx, ending, []any{order}, nil)
		},
	}
}

// TestLibrariesOfHosts shows that a program keeps its timers in the transactions of the
// library that it uses for its own tables, with the lines of examples/recipes/README.md. It books orders that are rolled back, and orders that are committed and
// ended when they are due, on a pool of pgx that database/sql shares.
func TestLibrariesOfHosts(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	harness.Must(t, err)
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	harness.Must(t, postgres.Migrate(t.Context(), db))
	g, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: db}))
	harness.Must(t, err)
	hosts := map[string]host{"sqlx": ofSqlx(sqlx.NewDb(db, "pgx")), "gorm": ofGorm(g), "ent": ofEnt()}
	a, err := app.New(postgres.New(db, postgres.Options{}), nil, slog.New(slog.DiscardHandler), app.Options{})
	harness.Must(t, err)
	ended := make(chan error, len(hosts))
	for name, h := range hosts {
		a.Timers().OnDueTx(name+"-", func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
			err := h.end(ctx, tx, string(e.ServiceCallID))
			ended <- err
			return err
		}, app.OnDueOptions{})
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- a.Run(ctx) }()
	<-a.Running()
	for name, h := range hosts {
		no := errors.New("no")
		if err := h.book(t.Context(), a.Timers(), name+"-rolled-back", no); !errors.Is(err, no) {
			t.Errorf("%s: %v", name, err)
		}
		if err := h.book(t.Context(), a.Timers(), name+"-booked", nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range hosts {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	rows := 0
	harness.Must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM orders WHERE state = 'ended' AND id LIKE '%-booked'`).Scan(&rows))
	total := 0
	harness.Must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&total))
	if rows != len(hosts) || total != len(hosts) {
		t.Errorf("%d orders are ended and %d are there, want %d of both", rows, total, len(hosts))
	}
}
