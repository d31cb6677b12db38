package rabbitmq_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
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
	r.Helper()
	_, rest, _ := strings.Cut(r.opt.URL, "@")
	plain, _, _ := strings.Cut(rest, "/")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
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
	r.opt.TLS = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}
	b := r.ready(r.opt)
	messages := subscribe(t, b, "reader", r.topic())
	publish(t, b, r.topic(), "event", strings.Repeat("x", 1<<20))
	got := []int{len(next(t, messages).Payload), len(next(t, messages).Payload)}
	if got[0]+got[1] != len("event")+1<<20 {
		t.Errorf("bodies of %v bytes came", got)
	}
	for name, config := range map[string]*tls.Config{"unknown server": {Certificates: []tls.Certificate{cert}}, "no certificate": {RootCAs: pool}} {
		opt := r.opt
		opt.TLS = config
		if _, err := r.broker(opt).Provision(t.Context(), true); err == nil || strings.Contains(err.Error(), "guest") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
