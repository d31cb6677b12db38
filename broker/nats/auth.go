package nats

import (
	"errors"
	"fmt"
	"strings"

	natsgo "github.com/nats-io/nats.go"
)

// Security is how a [Broker] authenticates, and how it verifies the server. Files are
// read at every connect, so that they can be replaced while the broker runs. At most one
// of Credentials, NKey, Username and Token is set; credentials in the URL win over
// Username and Token.
type Security struct {
	Credentials string // file with a JWT and its seed (.creds)
	NKey        string // file with the seed of an nkey
	Username    string // user, with a Password
	Password    string
	Token       string

	// CA is a file (PEM) with the certificates that sign the server's. If it is set,
	// nothing is sent without TLS.
	CA   string
	Cert string // file (PEM) with the certificate that is shown to the server, with a Key
	Key  string
}

// options returns the options of the connection. Its error is retried, since the file may
// be replaced.
func (s Security) options() (options []natsgo.Option, err error) {
	if s.Credentials != "" {
		options = append(options, natsgo.UserCredentials(s.Credentials))
	}
	if s.NKey != "" {
		key, err := natsgo.NkeyOptionFromSeed(s.NKey)
		if err != nil {
			return nil, fmt.Errorf("nkey in %s: %w", s.NKey, err)
		}
		options = append(options, key)
	}
	if s.Username != "" {
		options = append(options, natsgo.UserInfo(s.Username, s.Password))
	}
	if s.Token != "" {
		options = append(options, natsgo.Token(s.Token))
	}
	if s.CA != "" {
		options = append(options, natsgo.RootCAs(s.CA))
	}
	if s.Cert != "" {
		options = append(options, natsgo.ClientCert(s.Cert, s.Key))
	}
	return options, nil
}

// explain adds which credentials the server refuses, without any secret. The client
// library does not say that.
func (s Security) explain(err error, url string) error {
	denied := errors.Is(err, natsgo.ErrAuthorization) || errors.Is(err, natsgo.ErrAuthExpired) ||
		errors.Is(err, natsgo.ErrAuthRevoked) || errors.Is(err, natsgo.ErrAccountAuthExpired)
	// A server that refuses a certificate sends an alert, or ends the connection.
	alert := err != nil && (strings.Contains(err.Error(), "remote error: tls") || strings.Contains(err.Error(), "closed by remote after TLS handshake"))
	what := "a client without credentials"
	switch {
	case alert && s.Cert != "":
		what = "the certificate in " + s.Cert
	case alert:
		what = "a client without a certificate"
	case !denied:
		return err
	case s.Credentials != "":
		what = "the credentials in " + s.Credentials
	case s.NKey != "":
		what = "the nkey in " + s.NKey
	case strings.Contains(url, "@"):
		what = "the credentials in the URL"
	case s.Username != "":
		what = "the user name or its password"
	case s.Token != "":
		what = "the token"
	case s.Cert != "":
		what = "the certificate in " + s.Cert
	}
	return fmt.Errorf("the server refuses %s: %w", what, err)
}
