package postgres

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// A Durability says which failures a commit survives.
type Durability int

// Durabilities.
const (
	Strict  Durability = iota // a loss of power: every commit is synced, as the server is set
	Relaxed                   // a crash of this process; a crash of the server may take the last commits
)

const (
	connectTimeout = 5 * time.Second
	connections    = 10 // of Open: 8 that work, and two that hold the locks of an instance
	readers        = 4  // of OpenReader

	silence = 10 * time.Second // after which the connections of a server that does not answer are closed
)

// Connect returns a handle like that of Open, for [Migrate] and [ReferenceServiceCalls]. It
// connects when it is first used.
func Connect(url string) (*sql.DB, error) { return connect(url, connections) }

// connect returns a handle for the URL. It connects when it is first used.
func connect(url string, limit int) (*sql.DB, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(limit)
	db.SetMaxIdleConns(limit)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db, nil
}

// parse reads a URL. Its error does not quote the parser's message: if a password has a slash
// in it, that message contains a part of the password.
func parse(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the URL of the database can't be read: it looks like postgres://user:password@host:5432/database?sslmode=require, " +
			"with %-escapes for special characters in the password")
	}
	if !strings.Contains(url, "default_query_exec_mode") {
		// Without cached descriptions pgx sends arrays as text, and a sixth fewer timers are
		// delivered.
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "timer-service"
	}
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence, Interval: 5 * time.Second, Count: 3},
		Control:         giveUp,
	}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
	return config, nil
}
