package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/timer"
)

// reader returns a client for a verb that only reads: of a running service, or, if none answers for
// this database, of its HTTP handler within this process. The database is closed when the verb has
// ended.
func (e *env) reader(ctx context.Context) (*apiclient.Client, error) {
	c, err := e.service(ctx)
	switch {
	case errors.Is(err, apiclient.ErrOther):
		fmt.Fprintf(e.stderr, "%s: %v; the database is read without a service\n", program, err)
	case !errors.Is(err, errNoService):
		return c, err
	}
	r, err := service.Reader(ctx, e.cfg)
	if err != nil {
		return nil, err
	}
	e.database = r
	return apiclient.Within(r), nil
}

// errNoService says that no service answers for the database of the configuration.
var errNoService = errors.New("no service answers")

// service returns a client of a running service: the one of the setting server, or the one of
// this machine without that setting. The error wraps [errNoService] if there is none.
func (e *env) service(ctx context.Context) (*apiclient.Client, error) {
	switch socket := e.cfg.Socket(); {
	case !e.cfg.Server.Empty():
		return apiclient.New(e.cfg.Server.Reveal(), e.token), nil
	case socket != "":
		c, err := apiclient.Local(ctx, socket, e.cfg.HTTPPrefix, e.token)
		switch {
		case errors.Is(err, apiclient.ErrStranger):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w here; start one, or name one with --server (%w)", errNoService, err)
		}
		return c, nil
	case e.cfg.LocalURL() != "":
		_, err := service.Answering(ctx, e.cfg)
		switch {
		case errors.Is(err, apiclient.ErrOther): // it gets no token
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errNoService, err)
		}
		return apiclient.Here(e.cfg, e.token)
	}
	return nil, fmt.Errorf("%w here, since http_addr is empty; name one with --server", errNoService)
}

// hint says what to do about an error, or "" if the error says it.
func hint(err error) string {
	_, away := errors.AsType[*net.OpError](err)
	absent, gone := errors.AsType[*absentError](err)
	switch {
	case gone:
		return fmt.Sprintf("%q lists what there is.", program+" "+absent.verb)
	case errors.Is(err, errNoService), errors.Is(err, apiclient.ErrOther):
		return `"` + program + ` serve" starts one.`
	case errors.Is(err, apiclient.ErrAway):
		return `See whether it runs with "` + program + ` health --server URL".`
	case errors.Is(err, timer.ErrFatal), errors.Is(err, fs.ErrNotExist), errors.Is(err, nats.ErrNoServers), away:
		return `"` + program + ` doctor" looks for the cause.`
	}
	return ""
}
