package kafka_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

const (
	user     = "timer"
	password = "hunter2-is-secret"
)

// works proves that what is published through a broker arrives.
func works(t *testing.T, opt kafka.Options) {
	t.Helper()
	opt.Routing = routing()
	b := ready(t, opt)
	messages, _ := subscribe(t, b, opt.Routing.EventsOf("acme"))
	tail, err := b.Tail().Subscribe(t.Context(), opt.Routing.EventsOf("acme"))
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, opt.Routing.EventsOf("acme"), "hello")
	expect(t, messages, "hello")
	expect(t, tail, "hello")
	if _, err := kafka.New(opt, quiet).Provision(t.Context(), true); err != nil {
		t.Errorf("Provision: %v", err)
	}
}

// fails proves that a broker gets no connection, goes on trying, and tells
// nobody a password.
func fails(t *testing.T, opt kafka.Options, why string) {
	t.Helper()
	opt.Routing = routing()
	var log logbuf.Buffer
	b := kafka.New(opt, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- b.Run(ctx) }()
	until(t, "a reason: "+why, func() bool {
		err := b.Ready(ctx)
		return err != nil && strings.Contains(err.Error(), why)
	})
	publishing := b.Publisher().Publish(opt.Routing.EventsOf("acme"))
	_, provisioning := b.Provision(ctx, true)
	if provisioning == nil {
		t.Error("Provision works")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v, want it to go on trying", err)
	}
	for _, err := range []error{b.Ready(t.Context()), publishing, provisioning} {
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("an error tells the password: %v", err)
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log tells the password:\n%s", &log)
	}
}

func TestLogsInWithSASL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sasl      kafka.SASL
		mechanism string
	}{
		{kafka.Plain, "PLAIN"}, {kafka.ScramSHA256, "SCRAM-SHA-256"}, {kafka.ScramSHA512, "SCRAM-SHA-512"},
	} {
		t.Run(test.mechanism, func(t *testing.T) {
			t.Parallel()
			c := serve(t, kfake.EnableSASL(), kfake.Superuser(test.mechanism, user, password))
			works(t, kafka.Options{URL: c.url(), SASL: test.sasl, Username: user, Password: password})
			works(t, kafka.Options{URL: "kafka://" + user + ":" + password + "@" + c.url(), SASL: test.sasl})
			fails(t, kafka.Options{URL: c.url(), SASL: test.sasl, Username: user, Password: "hunter2-is-wrong"}, "refuses the user")
			fails(t, kafka.Options{URL: "kafka://" + user + ":hunter2-is-wrong@" + c.url(), SASL: test.sasl}, "refuses the user")
			fails(t, kafka.Options{URL: c.url()}, "SASL")

			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, Err: kerr.SaslAuthenticationFailed, Count: -1}) // as Kafka answers
			fails(t, kafka.Options{URL: c.url(), SASL: test.sasl, Username: user, Password: password}, "SASL_AUTHENTICATION_FAILED")
		})
	}
}

func TestSpeaksTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	trusted := x509.NewCertPool()
	trusted.AddCert(a.certificate)
	server := &tls.Config{Certificates: []tls.Certificate{a.issue(t, "server")}, MinVersion: tls.VersionTLS12}

	c := serve(t, kfake.TLS(server))
	works(t, kafka.Options{URL: "kafka+ssl://" + c.url(), TLS: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}})
	fails(t, kafka.Options{URL: "kafka+ssl://" + c.url()}, "certificate")
	fails(t, kafka.Options{URL: c.url()}, "TLS")

	mutual := server.Clone()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, trusted
	m := serve(t, kfake.TLS(mutual), kfake.EnableSASL(), kfake.Superuser("PLAIN", user, password))
	own := &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{a.issue(t, "client")}, MinVersion: tls.VersionTLS12}
	works(t, kafka.Options{URL: "kafka+ssl://" + m.url(), TLS: own, SASL: kafka.Plain, Username: user, Password: password})
	fails(t, kafka.Options{
		URL: "kafka+ssl://" + m.url(), TLS: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
		SASL: kafka.Plain, Username: user, Password: password,
	}, "")
}

// An authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key}
}

// issue returns a certificate for this machine.
func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
