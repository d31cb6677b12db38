// Command service is a program next to the timer service, which runs as a process of
// its own: it asks for timers over NATS, and does something when they are due.
// README.md says what it shows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/timer"
)

func main() {
	url := flag.String("nats", "nats://127.0.0.1:4222", "NATS server that the timer service uses")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run connects with NATS, asks for reminders, and prints them when they are due, until
// ctx is done.
func run(ctx context.Context, url string, out io.Writer) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b := nats.New(nats.Options{
		URL: url, Name: "orders",
		Client: true,     // the stream is the service's
		Inbox:  "_INBOX", // where the embedded server lets any client receive
	}, log)
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NewSlogLogger(log))
	if err != nil {
		return err
	}
	// "orders" names a durable consumer: events wait there while this program is away.
	client.OnDue(router, b.Subscriber("orders"), func(_ context.Context, e timer.DueTimeReached) error {
		fmt.Fprintf(out, "%s is due, %d ms late, data %s\n", e.ServiceCallID, e.Lateness().Milliseconds(), e.Data)
		return nil // acked; after an error it comes again
	}, client.OnDueOptions{Topic: b.Routing().EventsOf("acme")})

	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return b.Run(ctx) })
	work.Go(func() error { return router.Run(ctx) })
	work.Go(func() error {
		if err := broker.AwaitReady(ctx, b); err != nil {
			return err
		}
		return order(ctx, client.New(broker.NewWatermillPublisher(b.Publisher()), b.Routing(), client.Options{}), out)
	})
	return work.Wait()
}

// order asks for three reminders, moves one and cancels one.
func order(ctx context.Context, c *client.Client, out io.Writer) error {
	prefix := time.Now().Format("150405-") // a timer that has fired is final: each run has new ones
	remind := func(n string, after time.Duration) client.Timer {
		return client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID("order-" + prefix + n), After: after, Data: []byte(`{"order":` + n + `}`)}
	}
	if err := c.ScheduleMany(ctx, remind("1", time.Second), remind("2", time.Second), remind("3", time.Second)); err != nil {
		return err
	}
	_, moved := c.Schedule(ctx, remind("2", 2*time.Second))
	_, canceled := c.Cancel(ctx, remind("3", 0).Key())
	if err := errors.Join(moved, canceled); err != nil {
		return err
	}
	fmt.Fprintln(out, "asked for order-"+prefix+"1 and 2, and canceled 3. Ctrl-C ends it.")
	return nil
}
