package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/event-service-agent/timer-service/internal/retry"
)

// SASL names a way to log in.
type SASL string

// Ways to log in.
const (
	NoSASL      SASL = ""
	Plain       SASL = "plain" // sends the password in the clear, so use it only with TLS
	ScramSHA256 SASL = "scram-sha-256"
	ScramSHA512 SASL = "scram-sha-512"
)

// Schemes of URLs.
const (
	schemePlain = "kafka"
	schemeTLS   = "kafka+ssl"
)

const (
	defaultPort = "9092"
	dialTimeout = 5 * time.Second
	clientID    = "timer-service" // how the servers name us in their logs
)

// An address is the parsed URL of the options.
type address struct {
	seeds              []string
	tls                bool
	username, password string
}

// parse reads URLs with commas between them. Its errors show no more of a URL
// than its scheme, since the rest may hold a password.
func parse(urls string) (a address, err error) {
	for i, part := range strings.Split(urls, ",") {
		part = strings.TrimSpace(part)
		if !strings.Contains(part, "://") {
			part = schemePlain + "://" + part
		}
		u, err := url.Parse(part)
		if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return a, errors.New("an address must be kafka://host:port, kafka+ssl://host:port or host:port")
		}
		if u.Scheme != schemePlain && u.Scheme != schemeTLS {
			return a, fmt.Errorf("an address has the scheme %q; use kafka or kafka+ssl", u.Scheme)
		}
		if secure := u.Scheme == schemeTLS; i > 0 && secure != a.tls {
			return a, errors.New("all addresses must have the same scheme: kafka or kafka+ssl")
		}
		a.tls = u.Scheme == schemeTLS
		a.seeds = append(a.seeds, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), defaultPort)))
		if u.User != nil {
			a.username = u.User.Username()
			a.password, _ = u.User.Password()
		}
	}
	return a, nil
}

// base returns the options of every client.
func (b *Broker) base() ([]kgo.Opt, error) {
	a, err := parse(b.opt.URL)
	if err != nil {
		return nil, err
	}
	if a.username == "" {
		a.username, a.password = b.opt.Username, b.opt.Password
	}
	opts := []kgo.Opt{
		kgo.ClientID(clientID),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // messages of an aborted transaction do not count
		kgo.SeedBrokers(a.seeds...),
		kgo.WithLogger(logger{b.log}),
		kgo.DialTimeout(dialTimeout),
		kgo.RetryTimeout(apiTimeout),
		kgo.RetryBackoffFn(retry.Connection.After),
		kgo.MetadataMinAge(250 * time.Millisecond), // finds a leader that moved soon
		kgo.MetadataMaxAge(10 * time.Second),       // finds new topics and partitions soon
		kgo.DisableClientMetrics(),
	}
	if a.tls {
		opts = append(opts, kgo.Dialer(b.dialTLS))
	} else if b.opt.TLS != nil {
		return nil, errors.New("TLS is set up, but the scheme is not kafka+ssl")
	}
	switch b.opt.SASL {
	case NoSASL:
		if a.username != "" {
			return nil, errors.New("a user name is set without SASL: set plain, scram-sha-256 or scram-sha-512")
		}
	case Plain:
		opts = append(opts, kgo.SASL(plain.Auth{User: a.username, Pass: a.password}.AsMechanism()))
	case ScramSHA256:
		opts = append(opts, kgo.SASL(scram.Auth{User: a.username, Pass: a.password}.AsSha256Mechanism()))
	case ScramSHA512:
		opts = append(opts, kgo.SASL(scram.Auth{User: a.username, Pass: a.password}.AsSha512Mechanism()))
	default:
		return nil, fmt.Errorf("SASL %q is none of plain, scram-sha-256, scram-sha-512", b.opt.SASL)
	}
	return opts, nil
}

// dialTLS makes a connection with the current certificates: files may have been replaced
// since the last one.
func (b *Broker) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: &tls.Config{MinVersion: tls.VersionTLS12}}
	if b.opt.TLS != nil {
		var err error
		if d.Config, err = b.opt.TLS(); err != nil {
			return nil, fmt.Errorf("set up TLS: %w", err)
		}
	}
	return d.DialContext(ctx, network, address)
}
