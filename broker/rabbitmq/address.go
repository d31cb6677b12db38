package rabbitmq

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A server is the parsed form of one URL.
type server struct {
	tls      bool
	address  string // host and port
	vhost    string
	user     string
	password string
	named    bool // the URL names a user
}

// String is the address without credentials.
func (s server) String() string { return s.address }

// servers parses URLs with commas between them. Its errors quote no part of a URL, which
// may be a password.
func servers(urls string) (all []server, err error) {
	for i, text := range strings.Split(urls, ",") {
		s, err := parse(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("URL %d of RabbitMQ: %w", i+1, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func parse(text string) (s server, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return s, errors.New("is not a URL; reserved characters in a user, password or virtual host are written as %XX")
	}
	port := "5672"
	switch u.Scheme {
	case "amqp":
	case "amqps":
		s.tls, port = true, "5671"
	default:
		return s, errors.New("does not begin with amqp:// or amqps://")
	}
	switch {
	case u.Hostname() == "":
		return s, errors.New("has no host")
	case u.RawQuery != "" || u.Fragment != "":
		return s, errors.New("has parameters; TLS and credentials are settings of their own")
	case strings.Count(u.EscapedPath(), "/") > 1:
		return s, errors.New("has a virtual host with a slash in it, which is written as %2F")
	}
	if u.Port() != "" {
		port = u.Port()
	}
	s.address, s.vhost = net.JoinHostPort(u.Hostname(), port), "/"
	if len(u.Path) > 1 {
		s.vhost = u.Path[1:]
	}
	if u.User != nil {
		s.named, s.user = true, u.User.Username()
		s.password, _ = u.User.Password()
	}
	return s, nil
}

// tls returns the TLS configuration for a server, nil without TLS.
func (opt Options) tls(s server) (*tls.Config, error) {
	if !s.tls {
		return nil, nil
	}
	if opt.TLS != nil {
		if c, err := opt.TLS(); c != nil || err != nil {
			return c, err
		}
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}, nil
}

// auth returns the ways to log in at a server. Secure is nil without TLS.
func (opt Options) auth(s server, secure *tls.Config) []amqp.Authentication {
	user, password := opt.Username, opt.Password
	if s.named {
		user, password = s.user, s.password
	}
	certified := secure != nil && (len(secure.Certificates) > 0 || secure.GetClientCertificate != nil)
	switch {
	case user == "" && password == "" && certified:
		return []amqp.Authentication{&amqp.ExternalAuth{}}
	case user == "" && password == "":
		user, password = "guest", "guest"
	}
	return []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}}
}
