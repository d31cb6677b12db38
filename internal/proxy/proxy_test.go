package proxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/proxy"
)

// echo is a server that answers each line with the same line. It returns its address.
func echo(t *testing.T) string {
	t.Helper()
	server, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return server.Addr().String()
}

// TestProxy disturbs a connection in each way.
func TestProxy(t *testing.T) {
	t.Parallel()
	p := proxy.New(proxy.TCP(echo(t)))
	address, err := p.Listen()
	if err != nil {
		t.Fatal(err)
	}
	dial := func() (net.Conn, error) { return new(net.Dialer).DialContext(t.Context(), "tcp", address) }
	// asked sends a line, and returns why there is no answer within a time.
	asked := func(conn net.Conn, within time.Duration) error {
		if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, "hello\n"); err != nil {
			return err
		}
		_, err := bufio.NewReader(conn).ReadString('\n')
		return err
	}
	connected := func() net.Conn {
		t.Helper()
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	check := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	conn := connected()
	check("undisturbed", asked(conn, time.Minute), nil)
	const delay = 20 * time.Millisecond
	p.Delay(proxy.ToServer, delay)
	p.Delay(proxy.ToClient, delay)
	began := time.Now()
	check("delayed", asked(conn, time.Minute), nil)
	if took := time.Since(began); took < 2*delay {
		t.Errorf("took %v, want %v", took, 2*delay)
	}
	p.Delay(proxy.ToServer, 0)
	p.Delay(proxy.ToClient, 0)
	for _, d := range []proxy.Direction{proxy.ToServer, proxy.ToClient} {
		p.Drop(d)
		check("dropped", asked(connected(), delay), os.ErrDeadlineExceeded)
		p.Pass()
		check("passed again", asked(connected(), time.Minute), nil)
	}
	p.Reset()
	check("reset", asked(conn, time.Minute), syscall.ECONNRESET)
	p.Refuse()
	if conn, err = dial(); err == nil { // else it was so soon that there was no connection yet
		err = asked(conn, time.Minute)
	}
	if err == nil {
		t.Error("refused: it answers")
	}
	p.Pass()
	check("passed at last", asked(connected(), time.Minute), nil)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
