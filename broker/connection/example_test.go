package connection_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
)

// A connection with a server of any kind is a value; here its name.
func ExampleKeeper() {
	k := connection.New(connection.Options[string]{
		Server: "the server",
		Dial:   func(context.Context) (string, error) { return "connection 1", nil },
		Close:  func(conn string) { fmt.Println("closed", conn) },
	}, slog.New(slog.DiscardHandler))
	_, err := k.Current()
	fmt.Println("away before Run:", errors.Is(err, broker.ErrUnavailable))

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	conn, err := k.Await(ctx) // verified
	fmt.Println("ready:", conn, err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// away before Run: true
	// ready: connection 1 <nil>
	// closed connection 1
	// <nil>
}

// What no retry can help ends Run. Any other error is tried again.
func ExampleFatal() {
	k := connection.New(connection.Options[string]{
		Server: "the server",
		Dial:   func(context.Context) (string, error) { return "connection 1", nil },
		Verify: func(context.Context, string) error {
			return connection.Fatal(errors.New("stream svc may drop messages: set its discard policy to new"))
		},
		Close: func(string) {},
	}, slog.New(slog.DiscardHandler))
	fmt.Println(k.Run(context.Background()))
	// Output: stream svc may drop messages: set its discard policy to new
}
