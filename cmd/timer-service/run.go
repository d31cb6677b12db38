package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

// Exit codes.
const (
	exitOK       = 0
	exitFailure  = 1 // it could not be done
	exitUsage    = 2 // a wrong verb, flag, value or setting: nothing was tried
	exitNotFound = 3 // there is no such timer or dead letter
)

// An env is what a verb works with.
type env struct {
	cfg    config.Config
	log    *slog.Logger
	out    output
	stdin  io.Reader
	stderr io.Writer        // for people: remarks beside the output
	now    func() time.Time // the clock
}

// run does what the arguments ask, and returns the exit code. Environ is as
// [os.Environ] returns it. Results go to stdout, errors and logs to stderr.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	out := &checked{w: stdout}
	err := execute(ctx, args, environ, out, stderr)
	if failed := out.failed(); failed != nil {
		err = fmt.Errorf("write the output: %w", failed)
	}
	if err != nil {
		complain(stderr, err)
	}
	return codeOf(err)
}

func execute(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	p, err := parse(args, stdout, stderr)
	if err != nil || p == nil {
		return err
	}
	e := &env{
		log:    slog.New(slog.DiscardHandler),
		out:    output{w: stdout, json: p.cli.Output == formatJSON},
		stdin:  os.Stdin,
		stderr: stderr,
		now:    time.Now,
	}
	if p.needsConfig() {
		if e.cfg, err = config.Load(p.settings(), environ, p.cli.File); err != nil {
			return mistakes(err)
		}
		e.log = logger(e.cfg, stderr, p.verb())
	}
	return p.run(ctx, e)
}

// logger returns where logs go. A verb that ends by itself says what matters in
// its output or its error, so it logs only if the user set a level.
func logger(cfg config.Config, stderr io.Writer, verb string) *slog.Logger {
	asked := verb == "serve"
	for _, v := range cfg.Values() {
		asked = asked || v.Key == "log_level" && v.From != config.FromDefault.String()
	}
	opt := &slog.HandlerOptions{Level: cfg.LogLevel}
	switch {
	case !asked:
		return slog.New(slog.DiscardHandler)
	case cfg.LogFormat == config.JSON:
		return slog.New(slog.NewJSONHandler(stderr, opt))
	}
	return slog.New(slog.NewTextHandler(stderr, opt))
}

func codeOf(err error) int {
	_, usage := errors.AsType[*usageError](err)
	switch {
	case err == nil:
		return exitOK
	case usage:
		return exitUsage
	case errors.Is(err, timer.ErrNotFound), errors.Is(err, errNoLetter):
		return exitNotFound
	}
	return exitFailure
}
