package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
)

// TestOrdersExpireUnlessTheyArePaid runs the program in a schema of its own. It needs
// TIMER_TEST_POSTGRES.
func TestOrdersExpireUnlessTheyArePaid(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, url, out)
		out.Close()
	}()
	var said []string
	for lines := bufio.NewScanner(in); lines.Scan(); {
		said = append(said, lines.Text())
		if strings.Contains(lines.Text(), "expired") {
			stop()
		}
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"1 is booked", "2 is booked", "2 is paid", "1 has expired, "} {
		if len(said) != 4 || !strings.Contains(said[i], "-"+want) {
			t.Fatalf("it printed %q", said)
		}
	}
}
