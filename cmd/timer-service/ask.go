package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/app/service"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

// probeTimeout is how long a service on this machine may take to say which database it
// serves.
const probeTimeout = time.Second

// reader returns a client for verbs that only read: of a service that runs, or, if none
// answers for this database, of its handler within this process. No instance on PostgreSQL
// says more than the database. The caller closes it.
func (e *env) reader(ctx context.Context) (*apiclient.Client, error) {
	if e.cfg.DBURL.Empty() || !e.cfg.Server.Empty() {
		if c, err := e.service(ctx); !errors.Is(err, errNoService) {
			return c, err
		}
	}
	r, err := service.Reader(ctx, e.cfg)
	if err != nil {
		return nil, err
	}
	return apiclient.Within(r), nil
}

// named returns a client of the service of the setting server; nil if that is not set.
func (e *env) named() (*apiclient.Client, error) {
	server := e.cfg.Server.Reveal()
	if server == "" {
		return nil, nil
	}
	token, err := e.token()
	if err != nil {
		return nil, err
	}
	return apiclient.New(server, token), nil
}

// token returns that of a service; it may be empty.
func (e *env) token() (string, error) {
	token := e.cfg.HTTPToken.Reveal()
	if e.tokenFile != "" {
		text, err := os.ReadFile(e.tokenFile)
		if err != nil {
			return "", &usageError{err: fmt.Errorf("--token-file: %w", err)}
		}
		token = strings.TrimSpace(string(text))
	}
	return token, nil
}

// errNoService says that no service answers for the database of the configuration.
var errNoService = errors.New("no service answers")

// service returns a client of a service that runs: that of the setting server, or else the
// one on http_addr, if it serves the database of the configuration, or if that is
// PostgreSQL, since any instance would do. The error wraps [errNoService] if there is none,
// and [apiclient.ErrDenied], too, if the one that answers does not say what it serves.
func (e *env) service(ctx context.Context) (*apiclient.Client, error) {
	if c, err := e.named(); c != nil || err != nil {
		return c, err
	}
	token, err := e.token()
	if err != nil {
		return nil, err
	}
	local, database := e.cfg.LocalURL(), e.cfg.DBPath
	if !e.cfg.DBURL.Empty() {
		database = e.cfg.DBURL.URL()
	}
	none := fmt.Errorf("%w at %s that serves %s; start one, or name one with --server", errNoService, cmp.Or(local, "http_addr"), database)
	if local == "" {
		return nil, none
	}
	c := apiclient.New(local, token)
	if !e.cfg.DBURL.Empty() {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	switch _, name, err := c.Database(ctx); {
	case errors.Is(err, apiclient.ErrDenied):
		return nil, fmt.Errorf("%w: %s: %w", errNoService, local, err)
	case err != nil || name != databaseName(e.cfg.DBPath):
		return nil, errors.Join(none, c.Close())
	}
	return c, nil
}

// databaseName returns what a service calls a database file of this machine.
func databaseName(path string) string {
	host, _ := os.Hostname()
	path, err := filepath.Abs(path)
	if resolved, e := filepath.EvalSymlinks(path); err == nil && e == nil {
		path = resolved
	}
	return "sqlite " + path + " on " + host
}

// hint says what to do about an error; empty if the error says it.
func hint(err error) string {
	_, away := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, apiclient.ErrAway):
		return `See whether it runs with "` + program + ` health --server URL"; without --server the database is read, or the broker.`
	case errors.Is(err, timer.ErrNotFound):
		return `"` + program + ` list TENANT" prints those that there are.`
	case errors.Is(err, errNoParked):
		return `"` + program + ` parked list" prints those that there are.`
	case errors.Is(err, errNoDeadLetter):
		return `"` + program + ` dlq list" prints those that there are.`
	case errors.Is(err, timer.ErrFatal), errors.Is(err, fs.ErrNotExist), errors.Is(err, nats.ErrNoServers), away:
		return `"` + program + ` doctor" looks for the cause.`
	}
	return ""
}
