package kafka_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
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

// fails proves that a broker gets no connection, goes on trying, and shows no
// password.
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
	publishing := broker.NewWatermillPublisher(b.Publisher()).Publish(opt.Routing.EventsOf("acme"))
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
			t.Errorf("an error shows the password: %v", err)
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log shows the password:\n%s", &log)
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
	works(t, kafka.Options{URL: "kafka+ssl://" + c.url(), TLS: always(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12})})
	fails(t, kafka.Options{URL: "kafka+ssl://" + c.url()}, "certificate")
	fails(t, kafka.Options{URL: c.url()}, "TLS")

	mutual := server.Clone()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, trusted
	m := serve(t, kfake.TLS(mutual), kfake.EnableSASL(), kfake.Superuser("PLAIN", user, password))
	own := &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{a.issue(t, "client")}, MinVersion: tls.VersionTLS12}
	works(t, kafka.Options{URL: "kafka+ssl://" + m.url(), TLS: always(own), SASL: kafka.Plain, Username: user, Password: password})
	fails(t, kafka.Options{
		URL: "kafka+ssl://" + m.url(), TLS: always(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}),
		SASL: kafka.Plain, Username: user, Password: password,
	}, "")
}

// always returns one configuration for every connection.
func always(c *tls.Config) func() (*tls.Config, error) {
	return func() (*tls.Config, error) { return c, nil }
}

// TestCertificatesThatWereReplacedAreUsed replaces the files with the authority
// and with the certificate of the client while the broker runs, and restarts the
// server with those of the new authority.
func TestCertificatesThatWereReplacedAreUsed(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), routing()
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(file, kind string, der []byte) {
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate := func() kfake.Opt {
		a := newAuthority(t)
		own := a.issue(t, "client")
		der, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		write(ca, "CERTIFICATE", a.certificate.Raw)
		write(cert, "CERTIFICATE", own.Certificate[0])
		write(key, "PRIVATE KEY", der)
		trusted := x509.NewCertPool()
		trusted.AddCert(a.certificate)
		return kfake.TLS(&tls.Config{
			Certificates: []tls.Certificate{a.issue(t, "server")}, MinVersion: tls.VersionTLS12,
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted,
		})
	}
	files := func() (*tls.Config, error) {
		trusted := x509.NewCertPool()
		authority, err := os.ReadFile(ca)
		if err != nil || !trusted.AppendCertsFromPEM(authority) {
			return nil, fmt.Errorf("no certificate: %w", err)
		}
		own, err := tls.LoadX509KeyPair(cert, key)
		return &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}, err
	}
	c := serve(t, rotate())
	b := ready(t, kafka.Options{URL: "kafka+ssl://" + c.url(), TLS: files, Routing: r})
	messages, _ := subscribe(t, b, r.EventsOf("acme"))
	publish(t, b, r.EventsOf("acme"), "before")
	expect(t, messages, "before")

	c.stop()
	c.opts = append(c.opts, rotate())
	c.start()
	until(t, "a connection with the new certificates", func() bool { return b.Ready(t.Context()) == nil })
	publish(t, b, r.EventsOf("acme"), "after")
	expect(t, messages, "after")
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
