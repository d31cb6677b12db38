// Command timer-service runs the timer service, and is a client of a running one:
// timer-service --help lists its verbs. One verb is one file; cli.go has the grammar of all
// of them.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

// These are the exit codes.
const (
	exitOK       = 0
	exitFailure  = 1 // the work failed
	exitUsage    = 2 // a wrong verb, flag, value or setting: nothing was tried
	exitNotFound = 3 // there is no such timer, tenant or message
)

func main() {
	os.Exit(run(untilSignal(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// untilSignal returns a context that the first SIGINT or SIGTERM cancels, for a
// clean stop. The second one ends the process at once.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailure)
	}()
	return ctx
}

// An env is the environment of a verb.
type env struct {
	cfg    config.Config
	log    *slog.Logger
	out    output
	stdin  io.Reader
	stderr io.Writer // for people: remarks that are no output

	token    string    // to show to a service; may be empty
	database io.Closer // that the verb reads itself; nil if it asks a service
}

// input opens a file for reading; "-" is stdin.
func (e *env) input(verb, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(e.stdin), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, wrong(verb, "%w", err)
	}
	return file, nil
}

// run executes the verb of the arguments, and returns the exit code. Environ is as [os.Environ]
// returns it. Results go to stdout, errors and logs to stderr.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == completeVerb { // of a shell
		complete(stdout, args[1:])
		return exitOK
	}
	out := &errorWriter{w: stdout}
	p, err := parse(args, out, stderr)
	if p != nil { // nil: the arguments asked for help, or are wrong
		if p.verb() == "serve" {
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // so that a closed pipe does not end the process
			lines, log := newQueue(stdout), newQueue(stderr)
			defer lines.flush()
			defer log.flush()
			out.w, stderr = lines, log
		}
		err = execute(ctx, p, environ, out, stderr)
	}
	if failed := out.failed(); failed != nil {
		err = fmt.Errorf("write the output: %w", failed)
	}
	if err != nil {
		printError(stderr, err)
	}
	return codeOf(err)
}

func execute(ctx context.Context, p *commandLine, environ []string, stdout, stderr io.Writer) (err error) {
	e := &env{
		log:    slog.New(slog.DiscardHandler),
		out:    output{w: stdout, json: p.cli.Output == formatJSON},
		stdin:  os.Stdin,
		stderr: stderr,
	}
	if v := p.verb(); !slices.Contains(bareVerbs, v) {
		if e.cfg, err = config.Load(p.flags.given(), environ, p.cli.File); err != nil {
			return mistakes(err)
		}
		if slices.Contains(localVerbs, v) && e.cfg.From("server") == config.FromFlag {
			return wrong(v, "--server names a service that runs, and %s works on this machine: leave it out", v)
		}
		e.token = cmp.Or(strings.TrimSpace(string(p.cli.TokenFile)), e.cfg.HTTPToken.Reveal())
		e.cfg.Version = built().Version
		e.log = logger(e.cfg, stderr, p.verb())
		if names := e.cfg.Ignored(); len(names) > 0 {
			e.log.DebugContext(ctx, "variables of Kubernetes are no settings", "names", names)
		}
	}
	p.kong.BindTo(ctx, (*context.Context)(nil))
	err = p.kong.Run(e)
	if e.database != nil {
		err = errors.Join(err, e.database.Close())
	}
	return err
}

// logger returns the logger of a verb. A verb that ends by itself reports in its output or
// its error, so it logs only if the user set a level.
func logger(cfg config.Config, stderr io.Writer, verb string) *slog.Logger {
	if verb != "serve" && cfg.From("log_level") == config.FromDefault {
		return slog.New(slog.DiscardHandler)
	}
	opt := &slog.HandlerOptions{Level: cfg.LogLevel, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration { // JSON would have nanoseconds
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}
	var lines slog.Handler = slog.NewTextHandler(stderr, opt)
	if cfg.LogFormat == config.JSON {
		lines = slog.NewJSONHandler(stderr, opt)
	}
	if q, ok := stderr.(*queue); ok {
		return q.logger(lines)
	}
	return slog.New(lines)
}

func codeOf(err error) int {
	_, usage := errors.AsType[*usageError](err)
	_, invalid := errors.AsType[apiclient.Invalid](err)
	switch {
	case err == nil:
		return exitOK
	case usage, invalid:
		return exitUsage
	case errors.Is(err, timer.ErrNotFound):
		return exitNotFound
	}
	return exitFailure
}
