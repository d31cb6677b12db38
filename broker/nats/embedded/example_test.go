package embedded_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

// inFolder calls an example with a folder for streams, and prints its error.
func inFolder(example func(dir string) error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := example(dir); err != nil {
		fmt.Println(err)
	}
}

// A server for this process only, which no port leads to. Give it to nats.Options as
// the Server.
func ExampleStart() {
	inFolder(func(dir string) error {
		server, err := embedded.Start(embedded.Options{StoreDir: dir, DontListen: true}, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer server.Shutdown()
		conn, err := natsgo.Connect("", natsgo.InProcessServer(server))
		if err != nil {
			return err
		}
		defer conn.Close()
		fmt.Println("connected:", conn.IsConnected())
		fmt.Printf("URL: %q, what is acked survives a power cut: %v\n", server.URL(), server.Syncs())
		return nil
	})
	// Output:
	// connected: true
	// URL: "", what is acked survives a power cut: true
}

// Others may send commands and read events with a token. The owner alone may do more.
func ExampleAccess() {
	inFolder(func(dir string) error {
		server, err := embedded.Start(embedded.Options{StoreDir: dir, Access: &embedded.Access{
			Password: "correct-horse", Token: "guests", Stream: "svc", Commands: "timer.commands", Events: "svc.*.serviceCall",
		}}, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer server.Shutdown()
		_, err = natsgo.Connect(server.URL())
		fmt.Println("without a token:", errors.Is(err, natsgo.ErrAuthorization))
		for _, who := range []natsgo.Option{natsgo.Token("guests"), natsgo.UserInfo(embedded.Owner, "correct-horse")} {
			conn, err := natsgo.Connect(server.URL(), who)
			if err != nil {
				return err
			}
			fmt.Println("connected:", conn.IsConnected())
			conn.Close()
		}
		return nil
	})
	// Output:
	// without a token: true
	// connected: true
	// connected: true
}
