package proxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/internal/proxy"
)

// An echo is a server that answers each line with the same line.
type echo struct {
	mu    sync.Mutex
	lines []string
	ended int // connections that came to an end
	work  sync.WaitGroup
}

func (e *echo) serve(conn net.Conn) {
	e.work.Go(func() {
		defer conn.Close()
		in := bufio.NewReader(conn)
		for {
			line, err := in.ReadString('\n')
			e.mu.Lock()
			if err != nil {
				e.ended++
			} else {
				e.lines = append(e.lines, line)
			}
			e.mu.Unlock()
			if err != nil {
				return
			}
			if _, err := io.WriteString(conn, line); err != nil {
				return
			}
		}
	})
}

func (e *echo) heard() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lines
}

func (e *echo) gone() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended
}

// inside runs a test in a bubble, where waiting takes no time.
func inside(t *testing.T, test func(*testing.T, *echo, *proxy.Proxy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := new(echo)
		p := proxy.New(func() (net.Conn, error) {
			ours, theirs := net.Pipe()
			e.serve(theirs)
			return ours, nil
		})
		test(t, e, p)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		e.work.Wait()
	})
}

func connect(t *testing.T, p *proxy.Proxy) net.Conn {
	t.Helper()
	conn, err := p.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(conn, line); err != nil {
		t.Fatalf("send %q: %v", line, err)
	}
}

// answers fails the test unless the next line comes within a time.
func answers(t *testing.T, conn net.Conn, line string, within time.Duration) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(line))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != line {
		t.Fatalf("answer %q, %v, want %q", got, err, line)
	}
}

// silent fails the test if anything comes within a minute.
func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); !isTimeout(err) {
		t.Errorf("read %d bytes, %v, want silence", n, err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestDelayIsOfTheDirection(t *testing.T) {
	inside(t, func(t *testing.T, _ *echo, p *proxy.Proxy) {
		conn := connect(t, p)
		for _, delay := range [][2]time.Duration{{}, {time.Second, 0}, {0, time.Minute}, {time.Second, time.Minute}, {}} {
			p.Delay(proxy.ToServer, delay[proxy.ToServer])
			p.Delay(proxy.ToClient, delay[proxy.ToClient])
			began := time.Now()
			send(t, conn, "hello\n")
			answers(t, conn, "hello\n", time.Hour)
			if took, want := time.Since(began), delay[0]+delay[1]; took != want {
				t.Errorf("took %v, want %v", took, want)
			}
		}
	})
}

func TestDelayLetsMuchBeOnItsWay(t *testing.T) {
	inside(t, func(t *testing.T, _ *echo, p *proxy.Proxy) {
		conn := connect(t, p)
		p.Delay(proxy.ToServer, time.Second)
		began := time.Now()
		for range 1000 {
			send(t, conn, "hello\n")
		}
		for range 1000 {
			answers(t, conn, "hello\n", time.Hour)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want %v", took, time.Second)
		}
	})
}

func TestBlackHoleKeepsTheConnectionAndLosesAll(t *testing.T) {
	inside(t, func(t *testing.T, e *echo, p *proxy.Proxy) {
		conn := connect(t, p)
		send(t, conn, "before\n")
		answers(t, conn, "before\n", time.Hour)
		p.Drop(proxy.ToServer, proxy.ToClient)
		send(t, conn, "lost\n")
		silent(t, conn)
		fresh := connect(t, p)
		send(t, fresh, "lost\n")
		silent(t, fresh)
		p.Pass()
		send(t, conn, "lost\n")
		silent(t, conn)
		conn.Close()
		synctest.Wait()
		if len(e.heard()) != 1 || e.gone() != 0 {
			t.Errorf("the server heard %q, and of %d ends", e.heard(), e.gone())
		}
		fresh = connect(t, p)
		send(t, fresh, "after\n")
		answers(t, fresh, "after\n", time.Hour)
		if n := p.Accepted(); n != 3 {
			t.Errorf("accepted %d connections, want 3", n)
		}
	})
}

func TestOneDirectionIsDropped(t *testing.T) {
	inside(t, func(t *testing.T, e *echo, p *proxy.Proxy) {
		conn := connect(t, p)
		send(t, conn, "first\n")
		answers(t, conn, "first\n", time.Hour)
		p.Drop(proxy.ToClient)
		send(t, conn, "heard\n")
		silent(t, conn)
		if len(e.heard()) != 2 {
			t.Errorf("the server heard %q", e.heard())
		}
		conn.Close()
		synctest.Wait()
		if e.gone() != 1 {
			t.Error("the server did not hear of the end")
		}
	})
}

// TestTCP goes through the network, where a reset is one.
func TestTCP(t *testing.T) {
	t.Parallel()
	server, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := new(echo)
	e.work.Go(func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			e.serve(conn)
		}
	})
	p := proxy.New(proxy.TCP(server.Addr().String()))
	address, err := p.Listen()
	if err != nil {
		t.Fatal(err)
	}
	dial := func() (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { conn.Close() })
		return conn, conn.SetDeadline(time.Now().Add(time.Minute))
	}
	connected := func() net.Conn {
		t.Helper()
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	wantReset := func(conn net.Conn, err error) {
		t.Helper()
		if err == nil { // else it was so soon that there was no connection yet
			_, err = conn.Read(make([]byte, 1))
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v, want a reset", err)
		}
	}

	conn := connected()
	send(t, conn, "hello\n")
	answers(t, conn, "hello\n", time.Minute)
	p.Reset()
	wantReset(conn, nil)

	p.Refuse()
	wantReset(dial())
	p.Pass()

	conn = connected()
	send(t, conn, "again\n")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(conn); err != nil || string(rest) != "again\n" {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	wantReset(dial()) // the server is gone
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	e.work.Wait()
}
