package postgres_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// TestStalledReaderLetsGo stops one instance while the server sends it what it has
// claimed, more than fits into the buffers in between. The server, which is not
// idle then, gives up on it all the same, and another one has the rows.
func TestStalledReaderLetsGo(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	b := open(t, place, relaxed)
	const n = 12_000 // of a kilobyte each
	commands := make([]timer.ScheduleTimer, n)
	for i := range commands {
		commands[i] = schedule(timer.ServiceCallID(fmt.Sprintf("call-%0123d", i)))
		commands[i].Trace.Parent, commands[i].Trace.State = strings.Repeat("p", 512), strings.Repeat("s", 512)
	}
	if _, err := b.Schedule(t.Context(), noon, commands...); err != nil {
		t.Fatal(err)
	}

	config, err := pgx.ParseConfig(place)
	must(t, err)
	stall := &stall{begin: make(chan struct{}), end: make(chan struct{})}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return stalledConn{conn, stall}, err
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	a := postgres.New(db, relaxed)
	must(t, a.Prepare(t.Context()))
	stall.armed.Store(true)
	reached := make(chan error)
	go func() {
		reached <- a.Update(t.Context(), func(tx timer.Tx) error {
			_, err := tx.Reach(t.Context(), noon, n, nil)
			return err
		})
	}()
	<-stall.begin
	outcomes, err := b.Cancel(t.Context(), noon, cancel(commands[0].ServiceCallID), cancel(commands[n-1].ServiceCallID))
	if err != nil || outcomes[0].Outcome != timer.DidCancel || outcomes[1].Outcome != timer.DidCancel {
		t.Errorf("the other one got %v, %v, want that it canceled", outcomes, err)
	}
	close(stall.end)
	if err := <-reached; err == nil {
		t.Error("the stalled one has committed")
	}
}

// A stall is a time in which nothing is read.
type stall struct {
	armed      atomic.Bool
	read       atomic.Int64
	begin, end chan struct{}
}

type stalledConn struct {
	net.Conn
	*stall
}

// Read stops when it has read a bit of what is too much.
func (c stalledConn) Read(p []byte) (int, error) {
	if c.armed.Load() && c.read.Load() > 1<<16 {
		c.armed.Store(false)
		close(c.begin)
		<-c.end
	}
	n, err := c.Conn.Read(p)
	if c.armed.Load() {
		c.stall.read.Add(int64(n))
	}
	return n, err
}
