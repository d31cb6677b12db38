package rabbitmq_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/proxy"
)

// certificate signs itself, for 127.0.0.1.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	own, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(own)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// secure has a server with TLS, which wants to see a certificate, pass
// connections on. It returns its address.
func (r *rabbit) secure(cert tls.Certificate, clients *x509.CertPool) string {
	return r.secureAs(func() (tls.Certificate, *x509.CertPool) { return cert, clients })
}

// secureAs asks for the certificates at each connection.
func (r *rabbit) secureAs(now func() (tls.Certificate, *x509.CertPool)) string {
	r.Helper()
	_, rest, _ := strings.Cut(r.opt.URL, "@")
	plain, _, _ := strings.Cut(rest, "/")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			cert, clients := now()
			return &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}, nil
		},
	})
	if err != nil {
		r.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done := make(chan struct{})
		open := 0
		for {
			client, err := listener.Accept()
			if err != nil {
				break
			}
			server, err := proxy.TCP(plain)()
			if err != nil {
				client.Close()
				continue
			}
			open++
			go func() {
				defer func() { done <- struct{}{} }()
				join(client, server)
			}()
		}
		for range open {
			<-done
		}
	}()
	r.Cleanup(func() {
		listener.Close()
		r.proxy.Reset()
		<-ended
	})
	return listener.Addr().String()
}

// join passes on until one side ends.
func join(a, b net.Conn) {
	over := make(chan struct{}, 2)
	pass := func(from, to net.Conn) {
		defer func() { over <- struct{}{} }()
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	go pass(a, b)
	go pass(b, a)
	<-over
	a.Close()
	b.Close()
	<-over
}

func TestTLSWithACertificateOfOurOwn(t *testing.T) {
	t.Parallel()
	r := open(t)
	cert, pool := certificate(t)
	r.opt.URL = "amqps://guest:guest@" + r.secure(cert, pool) + "/"
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

// TestReplacedCertificatesAreReadAgain replaces the files of the client while it
// is connected, and then the certificate of the server.
func TestReplacedCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	r := open(t)
	dir := t.TempDir()
	ca, own, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	var mu sync.Mutex
	var cert tls.Certificate
	var pool *x509.CertPool
	replace := func() {
		mu.Lock()
		defer mu.Unlock()
		cert, pool = certificate(t)
		der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
		for name, text := range map[string][]byte{ca: public, own: public, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	replace()
	r.opt.URL = "amqps://guest:guest@" + r.secureAs(func() (tls.Certificate, *x509.CertPool) {
		mu.Lock()
		defer mu.Unlock()
		return cert, pool
	}) + "/"
	r.opt.TLS = func() (*tls.Config, error) {
		mu.Lock() // files are replaced one by one; here, all at once
		defer mu.Unlock()
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		c := &tls.Config{RootCAs: x509.NewCertPool()}
		c.RootCAs.AppendCertsFromPEM(text)
		pair, err := tls.LoadX509KeyPair(own, key)
		c.Certificates = []tls.Certificate{pair}
		return c, err
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
		until(t, "a broker that is not ready", func() bool { return b.Ready(t.Context()) != nil })
		until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
	}
}
