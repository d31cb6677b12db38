package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// A reader reads timers, from the database or from a service that runs.
type reader interface {
	io.Closer
	Get(ctx context.Context, key timer.Key) (timer.Entry, error)
	List(ctx context.Context, tenant timer.TenantID, filter timer.Filter) (timer.Page, error)
	Correlated(ctx context.Context, correlationID string, limit int) ([]timer.Entry, error)
	Due(ctx context.Context, before time.Time, after string, limit int) (timer.DuePage, error)
	Overdue(ctx context.Context, tenant timer.TenantID, now time.Time) (timer.Overdue, error)
	Delivery(ctx context.Context, eventID string) (timer.Delivery, error)
	Stats(ctx context.Context) (timer.Stats, error)
	Unprotected(ctx context.Context) (timer.Unprotected, error)
	Counts(ctx context.Context, tenant timer.TenantID) (timer.Counts, error)
	Tenants(ctx context.Context, after timer.TenantID, limit int) ([]timer.TenantCounts, error)
	Firing(ctx context.Context) (timer.Pause, error)
	Parked(ctx context.Context, tenant timer.TenantID, after int64, limit int) ([]timer.ParkedEvent, error)
}

// probeTimeout is how long a service on this machine may take to say which database it
// serves.
const probeTimeout = time.Second

// reader returns what reads timers: the service of the setting server if that is set,
// else a service on this machine if one answers on http_addr and serves this database,
// else the database itself. The caller closes it.
func (e *env) reader(ctx context.Context) (reader, error) {
	c, err := e.service(ctx)
	switch {
	case c != nil:
		return c, nil
	case err == nil, errors.Is(err, apiclient.ErrDenied): // the file is ours to read, if it is that
		return e.database(ctx)
	}
	return nil, err
}

// A database is one that is read without a service.
type database struct {
	timer.Reader
	io.Closer
}

// Unprotected returns none: only a service asks the broker.
func (database) Unprotected(context.Context) (timer.Unprotected, error) {
	return timer.Unprotected{}, nil
}

func (e *env) database(ctx context.Context) (reader, error) {
	r, err := service.Reader(ctx, e.cfg)
	if err != nil {
		return nil, err
	}
	return database{r, r}, nil
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

// service returns a client of the service to ask; nil if the database is to be used. The
// error wraps [apiclient.ErrDenied] if one answers on http_addr and does not say which
// database it serves.
func (e *env) service(ctx context.Context) (*apiclient.Client, error) {
	if c, err := e.named(); c != nil || err != nil {
		return c, err
	}
	token, err := e.token()
	if err != nil {
		return nil, err
	}
	if !e.cfg.DBURL.Empty() { // any instance would do, and none says more than the database
		return nil, nil
	}
	local := localServer(e.cfg.HTTPAddr, e.cfg.HTTPPrefix)
	if local == "" {
		return nil, nil
	}
	c := apiclient.New(local, token)
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, name, err := c.Database(ctx)
	if err == nil && name == databaseName(e.cfg.DBPath) {
		return c, nil
	}
	if err = errors.Join(err, c.Close()); errors.Is(err, apiclient.ErrDenied) {
		return nil, fmt.Errorf("%s: %w", local, err)
	}
	return nil, nil
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

// mustAsk returns a client of a service, for what only a service knows.
func (e *env) mustAsk(ctx context.Context) (*apiclient.Client, error) {
	c, err := e.service(ctx)
	if c == nil && err == nil {
		local := localServer(e.cfg.HTTPAddr, e.cfg.HTTPPrefix)
		if local == "" || e.cfg.DBURL.Empty() {
			return nil, fmt.Errorf("no service answers at %s that serves %s; start one, or name one with --server", cmp.Or(local, "http_addr"), e.cfg.DBPath)
		}
		token, err := e.token()
		if err != nil {
			return nil, err
		}
		return apiclient.New(local, token), nil
	}
	return c, err
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
