// Command monolith is an application that has the timer service inside, as a module:
// its service calls and their timers are in one SQLite file, and there is no broker.
// README.md says what it shows.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/event-service-agent/timer-service/timer"
)

func main() {
	path := flag.String("db", "", "SQLite file; default a temporary one")
	address := flag.String("addr", "127.0.0.1:8090", "where the page is")
	flag.Parse()
	if err := runMonolith(*path, *address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runMonolith runs the application until it is interrupted.
func runMonolith(path, address string) error {
	if path == "" {
		dir, err := os.MkdirTemp("", "monolith")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "monolith.db")
	}
	socket, err := net.Listen("tcp", address) //nolint:noctx // it takes no time
	if err != nil {
		return err
	}
	monolith := fx.New(
		fx.WithLogger(func(log *slog.Logger) fxevent.Logger { return &fxevent.SlogLogger{Logger: log} }),
		fx.Invoke(report), // before the others, so that it hears of an event first
		Monolith(path, socket),
	)
	if err := monolith.Err(); err != nil {
		return err
	}
	monolith.Run()
	return nil
}

// report prints what happens, and books some service calls for that.
func report(lc fx.Lifecycle, o *Orchestration, bus *Bus, socket net.Listener) {
	url := "http://" + socket.Addr().String()
	began := time.Now()
	say := func(what string, key timer.Key, more string) {
		fmt.Printf("%6.3f s  %-11s  %s  %s\n", time.Since(began).Seconds(), what, key, more)
	}
	Subscribe(bus, func(_ context.Context, e StartExecution) error {
		say("is due", e.Key, "correlation "+e.CorrelationID)
		return nil
	})
	Subscribe(bus, func(_ context.Context, e ExecutionSucceeded) error {
		say("succeeded", e.Key, e.Answer)
		return nil
	})
	call := func(n int, after time.Duration) ServiceCall {
		return ServiceCall{
			Key: timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(fmt.Sprintf("call-%s-%d", began.Format("150405"), n))},
			URL: url + "/endpoint", CorrelationID: fmt.Sprint("request-", n), DueAt: began.Add(after),
		}
	}
	lc.Append(fx.StartHook(func(ctx context.Context) error {
		fmt.Printf("The service calls are at %s/ and the timers at %s/timers/. Ctrl-C ends it.\n", url, url)
		for n := 1; n <= 3; n++ {
			if err := o.Book(ctx, call(n, time.Second)); err != nil {
				return err
			}
			say("booked", call(n, 0).Key, "due after 1 s")
		}
		if err := o.Reschedule(ctx, call(2, 2*time.Second)); err != nil {
			return err
		}
		say("rescheduled", call(2, 0).Key, "due after 2 s")
		if err := o.Cancel(ctx, call(3, 0).Key); err != nil {
			return err
		}
		say("canceled", call(3, 0).Key, "")
		return nil
	}))
}
