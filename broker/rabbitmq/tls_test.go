package rabbitmq_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/internal/testcert"
)

// secure starts a server with TLS, which passes connections on. It asks for its
// configuration at each connection, and returns its address.
func (r *rabbit) secure(config func() *tls.Config) string {
	r.Helper()
	_, rest, _ := strings.Cut(r.opt.URL, "@")
	plain, _, _ := strings.Cut(rest, "/")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return config(), nil },
	})
	must(r, err)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := proxy.TCP(plain)()
			if err != nil {
				client.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // the end of one side ends the other one
				to.Close()
				from.Close()
			}
			work.Go(func() { pass(server, client) })
			work.Go(func() { pass(client, server) })
		}
	})
	r.Cleanup(func() {
		listener.Close()
		r.proxy.Reset()
		work.Wait()
	})
	return listener.Addr().String()
}

func TestTLSWithACertificateOfOurOwn(t *testing.T) {
	t.Parallel()
	r := open(t)
	cert, pool := testcert.New(t)
	r.opt.URL = "amqps://guest:guest@" + r.secure(func() *tls.Config { return testcert.Server(cert, pool) }) + "/"
	r.opt.TLS = func() (*tls.Config, error) {
		return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}, nil
	}
	b := r.ready(r.opt)
	messages := subscribe(t, b, "reader", r.topic())
	publish(t, b, r.topic(), "event", strings.Repeat("x", 1<<20))
	got := []int{len(next(t, messages).Payload), len(next(t, messages).Payload)}
	if got[0]+got[1] != len("event")+1<<20 {
		t.Errorf("bodies of %v bytes came", got)
	}
	for name, config := range map[string]*tls.Config{"unknown server": {Certificates: []tls.Certificate{cert}}, "no certificate": {RootCAs: pool}} {
		opt := r.opt
		opt.TLS = func() (*tls.Config, error) { return config, nil }
		if _, err := r.broker(opt).Provision(t.Context(), true); err == nil || strings.Contains(err.Error(), "guest") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReplacedCertificatesAreReadAgain replaces the files of the client while it is
// connected, and the certificate of the server.
func TestReplacedCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	r := open(t)
	dir := t.TempDir()
	var mu sync.Mutex // files are replaced one by one; here, all at once
	var server *tls.Config
	replace := func() {
		mu.Lock()
		defer mu.Unlock()
		cert, pool := testcert.New(t)
		testcert.Write(t, dir, cert)
		server = testcert.Server(cert, pool)
	}
	replace()
	r.opt.URL = "amqps://guest:guest@" + r.secure(func() *tls.Config {
		mu.Lock()
		defer mu.Unlock()
		return server
	}) + "/"
	r.opt.TLS = func() (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		return testcert.Read(dir)
	}
	b := r.ready(r.opt)
	messages := subscribe(t, b, "timer-service", r.topic())
	for _, body := range []string{"before", "after", "after another"} {
		publish(t, b, r.topic(), body)
		for got := ""; got != body; { // the ack of one before may be lost
			msg := next(t, messages)
			msg.Ack()
			got = string(msg.Payload)
		}
		replace()
		r.proxy.Reset()
		awaitNotReady(t, b)
		awaitReady(t, b)
	}
}
