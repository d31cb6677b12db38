package connection_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
)

// A server is one that a test lets fail.
type server struct {
	mu      sync.Mutex
	refuses error           // what Dial returns
	misses  error           // what Verify returns
	hangs   bool            // whether Ping gets no answer
	conns   []*conn         // all there were
	dialed  []time.Duration // when, after the start
	checked int             // calls of Verify
	start   time.Time
}

type conn struct {
	ended  chan error
	closed bool
}

func (s *server) set(change func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// verified returns how often Verify was called.
func (s *server) verified() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checked
}

// last returns the newest connection.
func (s *server) last() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[len(s.conns)-1]
}

func (s *server) options() connection.Options[*conn] {
	return connection.Options[*conn]{
		Server: "Test",
		Dial: func(context.Context) (*conn, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.dialed = append(s.dialed, time.Since(s.start))
			if s.refuses != nil {
				return nil, s.refuses
			}
			c := &conn{ended: make(chan error, 1)}
			s.conns = append(s.conns, c)
			return c, nil
		},
		Watch: func(ctx context.Context, c *conn) error {
			select {
			case err := <-c.ended:
				return err
			case <-ctx.Done():
				return nil
			}
		},
		Verify: func(context.Context, *conn) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.checked++
			return s.misses
		},
		Ping: func(ctx context.Context, _ *conn) error {
			s.mu.Lock()
			hangs := s.hangs
			s.mu.Unlock()
			if hangs {
				<-ctx.Done()
			}
			return ctx.Err()
		},
		Close: func(c *conn) { c.closed = true },
		Drain: func() {},
		Attrs: func(*conn) []any { return []any{"version", "7"} },
	}
}

// keep runs a keeper in a bubble until the test ends, and returns what it logs.
func keep(t *testing.T, s *server) (*connection.Keeper[*conn], *bytes.Buffer) {
	t.Helper()
	s.start = time.Now()
	logged := new(bytes.Buffer)
	k := connection.New(s.options(), slog.New(slog.NewTextHandler(logged, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		for i, c := range s.conns {
			if !c.closed {
				t.Errorf("connection %d was not closed", i)
			}
		}
		if _, err := k.Current(); !errors.Is(err, connection.ErrClosed) {
			t.Errorf("Current after Run: %v", err)
		}
		if _, err := k.Await(context.Background()); !errors.Is(err, connection.ErrClosed) {
			t.Errorf("Await after Run: %v", err)
		}
	})
	synctest.Wait()
	return k, logged
}

// lines returns how many lines with this text were logged.
func lines(logged *bytes.Buffer, text string) int {
	synctest.Wait()
	return strings.Count(logged.String(), text)
}

func TestAServerThatIsAbsentAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{refuses: errors.New("connection refused")}
		k, logged := keep(t, s)
		if _, err := k.Current(); !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), "Test: connection refused") {
			t.Errorf("Current: %v", err)
		}
		waited := make(chan time.Duration)
		go func() {
			if _, err := k.Await(t.Context()); err != nil {
				t.Error(err)
			}
			waited <- time.Since(s.start)
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := lines(logged, "level=WARN"); n != 1 {
			t.Errorf("%d warnings in an hour, want 1:\n%s", n, logged)
		}
		for i := range s.dialed[1:] {
			want := min(50*time.Millisecond<<min(i, 10), 500*time.Millisecond)
			if got := s.dialed[i+1] - s.dialed[i]; got != want {
				t.Fatalf("try %d after %v, want %v", i+1, got, want)
			}
		}
		s.set(func(s *server) { s.refuses = nil })
		if w := <-waited; w > time.Hour+500*time.Millisecond {
			t.Errorf("ready after %v", w)
		}
		if err := k.Ready(t.Context()); err != nil {
			t.Errorf("Ready: %v", err)
		}
		if lines(logged, "msg=connected broker=Test version=7") != 1 {
			t.Errorf("log:\n%s", logged)
		}
	})
}

func TestAConnectionThatIsLostIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		k, logged := keep(t, s)
		for i := range 3 {
			c, err := k.Current()
			if err != nil || c != s.last() {
				t.Fatalf("Current: %v", err)
			}
			s.set(func(s *server) { s.refuses = errors.New("away") })
			c.ended <- errors.New("reset by peer")
			synctest.Wait()
			if _, err := k.Current(); !errors.Is(err, broker.ErrUnavailable) {
				t.Errorf("Current of a lost connection: %v", err)
			}
			if err := k.Ready(t.Context()); !errors.Is(err, connection.ErrNotConnected) {
				t.Errorf("Ready: %v", err)
			}
			if !c.closed {
				t.Error("the lost connection was not closed")
			}
			s.set(func(s *server) { s.refuses = nil })
			time.Sleep(time.Second)
			if n := lines(logged, "msg=connected"); n != i+2 {
				t.Errorf("connected %d times, want %d", n, i+2)
			}
		}
		if n := lines(logged, "reset by peer"); n != 3 {
			t.Errorf("%d lines about three losses:\n%s", n, logged)
		}
	})
}

func TestAConnectionIsUsedWhileSomethingIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{misses: errors.New("no topic")}
		k, logged := keep(t, s)
		if _, err := k.Current(); err != nil {
			t.Errorf("Current: %v", err)
		}
		if err := k.Ready(t.Context()); err == nil || err.Error() != "no topic" {
			t.Errorf("Ready: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := k.Await(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no topic") {
			t.Errorf("Await: %v", err)
		}
		if n := lines(logged, "not ready"); n != 1 {
			t.Errorf("%d lines:\n%s", n, logged)
		}
		s.set(func(s *server) { s.misses = errors.Join(broker.ErrUnavailable, errors.New("frozen")) })
		time.Sleep(5 * time.Second)
		if _, err := k.Current(); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("Current while Verify says unavailable: %v", err)
		}
		s.set(func(s *server) { s.misses = nil })
		if _, err := k.Await(t.Context()); err != nil {
			t.Error(err)
		}
		if len(s.conns) != 1 {
			t.Errorf("%d connections, want 1", len(s.conns))
		}
	})
}

func TestRecheckIsSoonAndNotTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		k, _ := keep(t, s)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := s.verified(); n != 13 {
			t.Errorf("verified %d times in a minute, want 13", n)
		}
		time.Sleep(time.Second)
		s.set(func(s *server) { s.misses, s.checked = errors.New("gone"), 0 })
		k.Recheck()
		synctest.Wait()
		if err := k.Ready(t.Context()); err == nil {
			t.Error("ready after a Recheck that found something")
		}
		s.set(func(s *server) { s.misses = nil })
		for range 1000 {
			k.Recheck()
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if n := s.verified(); n > 22 {
			t.Errorf("verified %d times in a second", n)
		}
	})
}

func TestAServerThatDoesNotAnswerIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{hangs: true}
		k, _ := keep(t, s)
		began := time.Now()
		if err := k.Ready(t.Context()); !errors.Is(err, connection.ErrNotConnected) || time.Since(began) != time.Second {
			t.Errorf("Ready: %v after %v", err, time.Since(began))
		}
	})
}

func TestNoRetryMendsAFatalError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unfit := errors.New("unfit")
		for what, s := range map[string]*server{
			"Dial":   {refuses: connection.Fatal(unfit)},
			"Verify": {misses: connection.Fatal(unfit)},
		} {
			opt := s.options()
			drained := false
			opt.Drain = func() { drained = true }
			k := connection.New(opt, slog.New(slog.DiscardHandler))
			if err := k.Run(t.Context()); !errors.Is(err, unfit) || !drained {
				t.Errorf("%s: Run returns %v, drained %v", what, err, drained)
			}
			if err := k.Ready(t.Context()); !errors.Is(err, unfit) || !errors.Is(err, broker.ErrUnavailable) {
				t.Errorf("%s: Ready: %v", what, err)
			}
			if err := k.Run(t.Context()); err == nil {
				t.Errorf("%s: a second Run works", what)
			}
		}
	})
}

func TestTheConnectionWorksWhileItDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		opt := s.options()
		var k *connection.Keeper[*conn]
		opt.Drain = func() {
			time.Sleep(30 * time.Second)
			if _, err := k.Current(); err != nil || s.last().closed {
				t.Errorf("Current while draining: %v", err)
			}
		}
		k = connection.New(opt, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := k.Run(ctx); err != nil || time.Since(began) != 90*time.Second {
			t.Errorf("Run: %v after %v", err, time.Since(began))
		}
		if !s.last().closed {
			t.Error("the connection was not closed")
		}
	})
}
