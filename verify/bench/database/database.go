package database

import (
	"context"
	"embed"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Kind is what keeps the timers.
type Kind string

// Kinds.
const (
	SQLite   Kind = "sqlite"
	Postgres Kind = "postgres"
)

// Options say which database to make.
type Options struct {
	Kind Kind
	URL  string // of the PostgreSQL server, of a role that may create databases
}

// A Reader reads the database, and never writes.
type Reader interface {
	timer.Reader
	io.Closer
}

// A Database has its schema and no rows when it is made.
type Database interface {
	// Settings are those with which a service finds it, such as TIMER_DB_PATH.
	Settings() map[string]string

	// OpenReader opens it for reading.
	OpenReader(ctx context.Context) (Reader, error)

	// Fill puts timers into it. No service may be running.
	Fill(ctx context.Context, load Load, progress io.Writer) error

	// Usage returns the CPU time that processes of a server have used for it since it was
	// made. It is zero if there are none, or if they can't be seen from here.
	Usage(ctx context.Context) (time.Duration, error)

	// Drop removes it. It must not be used any more.
	Drop() error
}

// A Load is many timers that wait.
type Load struct {
	Timers  int
	Tenant  string        // what the names of their tenants begin with; a number follows
	Tenants int           // how many
	From    time.Time     // when the first of them is due
	Over    time.Duration // in which they are due; zero for all at once
}

// seconds are those in which they are due, at least one.
func (l Load) seconds() int64 { return max(1, int64(l.Over/time.Second)) }

// fillStep is how many timers are put in with one statement.
const fillStep = 1_000_000

// steps calls fn with the first and the last number of each step.
func (l Load) steps(progress io.Writer, fn func(first, last int) error) error {
	for first := 0; first < l.Timers; first += fillStep {
		last := min(first+fillStep, l.Timers) - 1
		if err := fn(first, last); err != nil {
			return err
		}
		if l.Timers > fillStep {
			fmt.Fprintf(progress, "%d of %d timers wait in the database\n", last+1, l.Timers)
		}
	}
	return nil
}

// New makes a database.
func New(ctx context.Context, opt Options) (Database, error) {
	if opt.Kind == Postgres {
		return newPostgres(ctx, opt)
	}
	return newSQLite(ctx)
}

//go:embed query
var queries embed.FS

// query returns the text of a statement by the name of its file.
func query(name string) string {
	text, err := queries.ReadFile("query/" + name + ".sql")
	if err != nil {
		panic("database: " + err.Error()) // the file is embedded
	}
	return strings.TrimSpace(string(text))
}
