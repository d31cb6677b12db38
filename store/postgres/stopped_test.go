package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// TestStoppedInstanceLetsGo stops one instance in the middle of a transaction.
// Another one waits for its rows, and has them in the end; nothing of the first
// one remains.
func TestStoppedInstanceLetsGo(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	a, b := open(t, place, relaxed), open(t, place, relaxed)
	scheduled(t, a, "call-1")
	err := a.Update(t.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(t.Context(), noon, 10, nil)
		if err != nil || len(entries) != 1 {
			t.Errorf("reached %d, %v", len(entries), err)
		}
		// It does nothing more until the server has given up on it.
		outcomes, err := cancelAtLast(t, b, cancel("call-1"))
		if err != nil || outcomes[0].Outcome != timer.DidCancel {
			t.Errorf("the other one got %v, %v, want that it canceled", outcomes, err)
		}
		return tx.Emit(t.Context(), entries[0].Event())
	})
	if err == nil || errors.Is(err, timer.ErrFatal) || errors.Is(err, timer.ErrInvalid) {
		t.Errorf("the stopped one: %v, want an error that may pass", err)
	}
	if e := get(t, b, "call-1"); e.State != timer.Canceled {
		t.Errorf("state %s, want Canceled", e.State)
	}
	if rows, err := b.Head(t.Context(), 0, 10); err != nil || len(rows) != 0 {
		t.Errorf("outbox: %v, %v, want nothing", rows, err)
	}
	scheduled(t, a, "call-2") // it goes on
}

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
	outcomes, err := cancelAtLast(t, b, cancel(commands[0].ServiceCallID), cancel(commands[n-1].ServiceCallID))
	if err != nil || outcomes[0].Outcome != timer.DidCancel || outcomes[1].Outcome != timer.DidCancel {
		t.Errorf("the other one got %v, %v, want that it canceled", outcomes, err)
	}
	close(stall.end)
	if err := <-reached; err == nil {
		t.Error("the stalled one has committed")
	}
}

// cancelAtLast tries again while another transaction holds the timers, as the handlers do.
func cancelAtLast(t *testing.T, s *postgres.Store, commands ...timer.CancelTimer) (results []timer.Result, err error) {
	late := time.Now().Add(30 * time.Second)
	for err = timer.ErrLocked; errors.Is(err, timer.ErrLocked) && time.Now().Before(late); {
		results, err = s.Cancel(t.Context(), noon, commands...)
	}
	return results, err
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

// TestForgetDeletesWhatItWaitedFor has timers reached by a transaction that commits
// while Forget waits for them: they are forgotten as all others are.
func TestForgetDeletesWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	var calls []timer.ServiceCallID
	for i := range 20 {
		calls = append(calls, timer.ServiceCallID(fmt.Sprintf("call-%02d", i)))
	}
	scheduled(t, s, calls...)
	forgotten := make(chan timer.Counts, 1)
	if err := s.Update(t.Context(), func(tx timer.Tx) error {
		if _, err := tx.Reach(t.Context(), noon, 5, nil); err != nil {
			return err
		}
		go func() {
			c, err := s.Forget(t.Context(), "acme", time.Time{}, 20)
			if err != nil {
				t.Error(err)
			}
			forgotten <- c
		}()
		waits(t, s.DB())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-forgotten, (timer.Counts{Scheduled: 15, Reached: 5}); got != want {
		t.Errorf("forgot %+v, want %+v", got, want)
	}
}
