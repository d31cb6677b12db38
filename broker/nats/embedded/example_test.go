package embedded_test

import (
	"fmt"
	"log/slog"
	"os"

	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
)

// A server for this process only, which no port leads to. Give it to nats.Options as
// the Server.
func ExampleStart() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	server, err := embedded.Start(embedded.Options{StoreDir: dir, DontListen: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Shutdown()
	conn, err := natsgo.Connect("", natsgo.InProcessServer(server))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	fmt.Println("connected:", conn.IsConnected())
	fmt.Printf("URL: %q, what is acked survives a power cut: %v\n", server.URL(), server.Syncs())
	// Output:
	// connected: true
	// URL: "", what is acked survives a power cut: true
}
