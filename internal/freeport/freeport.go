// Package freeport finds ports for the servers that tests start.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Find returns a port of the loopback interface that is not in use. It is below
// the ports that systems give to clients (from 32768 on Linux): a client that
// retries such a port while nothing listens there may be connected with itself,
// and then the server cannot start on it again.
func Find(ctx context.Context) (int, error) {
	const least, most, tries = 20_000, 32_000, 100
	var failed error
	for range tries {
		port := least + rand.IntN(most-least)
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", Address(port))
		if err == nil {
			return port, l.Close()
		}
		failed = err
	}
	return 0, fmt.Errorf("find a free port: %w", failed)
}

// Address returns the address of a port of the loopback interface.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
