package postgres_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/testcert"
	"github.com/event-service-agent/timer-service/store/postgres"
)

// asks answers connections as a server that wants TLS and a password, and sends the passwords that
// it gets.
func asks(t *testing.T, config *tls.Config) (address string, passwords <-chan string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	got := make(chan string, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if password, err := askedOn(conn, config); err == nil {
				got <- password
			}
			_ = conn.Close()
		}
	}()
	return l.Addr().String(), got
}

// askedOn reads the password of a connection, see
// https://www.postgresql.org/docs/current/protocol-message-formats.html.
func askedOn(conn net.Conn, config *tls.Config) (string, error) {
	if _, err := io.CopyN(io.Discard, conn, 8); err != nil { // an SSLRequest
		return "", err
	}
	if _, err := conn.Write([]byte("S")); err != nil {
		return "", err
	}
	server := tls.Server(conn, config)
	if err := message(server, 0, new(bytes.Buffer)); err != nil { // the start-up message
		return "", err
	}
	if _, err := server.Write([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 3}); err != nil { // AuthenticationCleartextPassword
		return "", err
	}
	var password bytes.Buffer
	err := message(server, 1, &password)
	return strings.TrimSuffix(password.String(), "\x00"), err
}

// message reads a message, whose type has a number of bytes.
func message(from io.Reader, of int, body io.Writer) error {
	head := make([]byte, of+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return err
	}
	_, err := io.CopyN(body, from, int64(binary.BigEndian.Uint32(head[of:]))-4)
	return err
}

// TestFilesAreReadAtEachConnect replaces the files that a URL names while the handle is in use:
// the authority of the server, the passwords, and the service with the host.
func TestFilesAreReadAtEachConnect(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, passes, services := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "pass"), filepath.Join(dir, "services")
	cert, _ := testcert.New(t)
	other, _ := testcert.New(t)
	address, passwords := asks(t, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	host, port, err := net.SplitHostPort(address)
	must(t, err)
	write := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	authority := func(of tls.Certificate) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: of.Certificate[0]}))
	}
	service := func(port string) string {
		return fmt.Sprintf("[timers]\nhost=%s\nport=%s\nuser=timer\ndbname=timers\n", host, port)
	}
	write(ca, authority(other))
	write(passes, "*:*:*:*:first\n")
	write(services, service("1"))
	db, err := postgres.Connect("postgres://?service=timers&sslmode=verify-full&sslrootcert=" + ca + "&passfile=" + passes + "&servicefile=" + services)
	must(t, err)
	defer db.Close()
	fails := func(with string) {
		t.Helper()
		if err := db.PingContext(context.WithoutCancel(t.Context())); err == nil || !strings.Contains(err.Error(), with) {
			t.Errorf("%v, want %q", err, with)
		}
	}
	fails("refused")
	write(services, service(port))
	fails("certificate")
	write(ca, authority(cert))
	for _, password := range []string{"first", "next"} {
		write(passes, "*:*:*:*:"+password+"\n")
		fails("")
		select {
		case got := <-passwords:
			if got != password {
				t.Errorf("the password %q, want %q", got, password)
			}
		default:
			t.Errorf("no password, want %q", password)
		}
	}
	must(t, os.Remove(ca))
	fails(ca) // says which file
	write(ca, authority(cert))
	fails("")
	if len(passwords) == 0 {
		t.Error("no password")
	}
}
