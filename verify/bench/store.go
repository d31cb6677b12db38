package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
	postgresdb "github.com/event-service-agent/timer-service/store/postgres"
	sqlitedb "github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// A store is the database of one measurement: a file, or a PostgreSQL server of its own.
type store struct {
	at     string            // path of the file, or URL
	server *postgresd.Server // nil for a file
}

// openStore makes a database in dir. The service makes its tables.
func openStore(ctx context.Context, kind crash.Store, dir string) (*store, error) {
	if kind != crash.Postgres {
		return &store{at: filepath.Join(dir, "timers.db")}, nil
	}
	port, err := freeport.Find(ctx)
	if err != nil {
		return nil, err
	}
	server, err := postgresd.Start(ctx, dir, port)
	if err != nil {
		return nil, err
	}
	return &store{server.URL(), server}, nil
}

// setting names the database to the service.
func (s *store) setting() string {
	if s.server == nil {
		return "TIMER_DB_PATH=" + s.at
	}
	return "TIMER_DB_URL=" + s.at
}

// A reader reads the database, and never writes.
type reader interface {
	timer.Reader
	io.Closer
}

func (s *store) reader(ctx context.Context) (reader, error) {
	if s.server == nil {
		return sqlitedb.OpenReader(ctx, s.at)
	}
	return postgresdb.OpenReader(ctx, s.at)
}

func (s *store) close() error {
	if s.server != nil {
		s.server.Stop()
	}
	return nil
}

// A load is many timers that wait.
type load struct {
	timers int
	tenant func(n int) timer.TenantID
	from   time.Time     // when the first of them is due
	over   time.Duration // in which they are due; zero for all at once
}

// fillStep is how many timers are put in with one transaction.
const fillStep = 10_000

// fill puts timers into the database, before a service runs on it. It leaves no work for
// vacuum, nor pages to be written.
func (s *store) fill(ctx context.Context, l load, progress io.Writer) (err error) {
	var to interface {
		timer.Store
		DB() *sql.DB
		Close() error
	}
	clean := []string{"PRAGMA wal_checkpoint(TRUNCATE)"}
	if s.server == nil {
		to, err = sqlitedb.Open(ctx, s.at, sqlitedb.Options{})
	} else {
		to, err = postgresdb.Open(ctx, s.at, postgresdb.Options{})
		clean = []string{"VACUUM (ANALYZE)", "CHECKPOINT"}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	for n := 0; n < l.timers; {
		now := time.Now()
		commands := make([]timer.ScheduleTimer, min(fillStep, l.timers-n))
		for i := range commands {
			commands[i] = command(l.tenant(n), now, timer.RoundUp(l.from.Add(time.Duration(float64(l.over)*float64(n)/float64(l.timers)))))
			n++
		}
		if _, err := to.Schedule(ctx, now, commands...); err != nil {
			return fmt.Errorf("fill the database: %w", err)
		}
		if n%1_000_000 == 0 {
			fmt.Fprintf(progress, "%d of %d timers wait in the database\n", n, l.timers)
		}
	}
	for _, text := range clean {
		if _, err := to.DB().ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}
