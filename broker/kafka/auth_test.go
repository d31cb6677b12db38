package kafka_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/testcert"
)

const (
	user     = "timer"
	password = "hunter2-is-secret"
)

// works fails the test unless a message that is published through a broker arrives.
func works(t *testing.T, opt kafka.Options) {
	t.Helper()
	opt.Routing = routing()
	b := ready(t, opt)
	messages, _ := subscribe(t, b, opt.Routing.EventsOf("acme"))
	tail, err := b.Tail().Subscribe(t.Context(), opt.Routing.EventsOf("acme"))
	must(t, err)
	publish(t, b, opt.Routing.EventsOf("acme"), "hello")
	expect(t, messages, "hello")
	expect(t, tail, "hello")
	if _, err := kafka.New(opt, quiet).Provision(t.Context(), true); err != nil {
		t.Errorf("Provision: %v", err)
	}
}

// fails fails the test unless a broker gets no connection for the reason why, goes on
// trying, and shows no password.
func fails(t *testing.T, opt kafka.Options, why string) {
	t.Helper()
	opt.Routing = routing()
	var log logbuf.Buffer
	b := kafka.New(opt, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- b.Run(ctx) }()
	awaitNotReady(t, b, why)
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
			c := fake(t, kfake.EnableSASL(), kfake.Superuser(test.mechanism, user, password))
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

// always returns one configuration for every connection.
func always(c *tls.Config) func() (*tls.Config, error) {
	return func() (*tls.Config, error) { return c, nil }
}

func TestSpeaksTLS(t *testing.T) {
	t.Parallel()
	cert, trusted := testcert.New(t)
	c := fake(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}))
	works(t, kafka.Options{URL: "kafka+ssl://" + c.url(), TLS: always(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12})})
	fails(t, kafka.Options{URL: "kafka+ssl://" + c.url()}, "certificate")
	fails(t, kafka.Options{URL: c.url()}, "TLS")

	m := fake(t, kfake.TLS(testcert.Server(cert, trusted)), kfake.EnableSASL(), kfake.Superuser("PLAIN", user, password))
	own := &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	opt := kafka.Options{URL: "kafka+ssl://" + m.url(), TLS: always(own), SASL: kafka.Plain, Username: user, Password: password}
	works(t, opt)
	opt.TLS = always(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12})
	fails(t, opt, "")
}

// TestCertificatesThatWereReplacedAreUsed replaces the files of the client while the
// broker runs, and restarts the server with the new certificate.
func TestCertificatesThatWereReplacedAreUsed(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), routing()
	replace := func() kfake.Opt {
		cert, trusted := testcert.New(t)
		testcert.Write(t, dir, cert)
		return kfake.TLS(testcert.Server(cert, trusted))
	}
	c := fake(t, replace())
	files := func() (*tls.Config, error) { return testcert.Read(dir) }
	b := ready(t, kafka.Options{URL: "kafka+ssl://" + c.url(), TLS: files, Routing: r})
	messages, _ := subscribe(t, b, r.EventsOf("acme"))
	publish(t, b, r.EventsOf("acme"), "before")
	expect(t, messages, "before")

	c.stop()
	c.opts = append(c.opts, replace())
	c.start()
	awaitReady(t, b)
	publish(t, b, r.EventsOf("acme"), "after")
	expect(t, messages, "after")
}
