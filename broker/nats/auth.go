package nats

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Security is how a [Broker] authenticates, and how it verifies the server. Files
// are read at every connect, so that they can be replaced while it runs. At most
// one of Credentials, NKey, Username and Token is set; what the URL names wins
// over Username and Token.
type Security struct {
	Credentials string // file with a JWT and its seed (.creds)
	NKey        string // file with the seed of an nkey
	Username    string // user, with a Password
	Password    string
	Token       string

	CA   string // file (PEM) with the certificates that sign the server's; with it nothing is sent without TLS
	Cert string // file (PEM) with the certificate that is shown to the server, with a Key
	Key  string
}

// options returns those of the connection, and the public key that it is going to
// show, if it has one. An error is retried: the file may be replaced.
func (s Security) options() (options []natsgo.Option, key string, err error) {
	if s.Credentials != "" {
		if _, err := s.token(); err != nil { // the library gives up if it is so at first
			return nil, "", err
		}
		options = append(options, natsgo.UserJWT(s.token, s.sign))
	}
	if s.NKey != "" {
		pair, err := s.pair()
		if err != nil {
			return nil, "", err
		}
		defer pair.Wipe()
		if key, err = pair.PublicKey(); err != nil {
			return nil, "", fmt.Errorf("nkey in %s: %w", s.NKey, err)
		}
		options = append(options, natsgo.Nkey(key, s.sign))
	}
	if s.Username != "" {
		options = append(options, natsgo.UserInfo(s.Username, s.Password))
	}
	if s.Token != "" {
		options = append(options, natsgo.Token(s.Token))
	}
	if s.CA != "" || s.Cert != "" {
		options = append(options, s.secure)
	}
	return options, key, nil
}

// token reads the JWT of the credentials.
func (s Security) token() (string, error) {
	text, err := os.ReadFile(s.Credentials)
	if err != nil {
		return "", fmt.Errorf("credentials: %w", err)
	}
	defer clear(text)
	token, err := nkeys.ParseDecoratedJWT(text)
	if err != nil {
		return "", fmt.Errorf("credentials in %s: %w", s.Credentials, err)
	}
	return token, nil
}

// pair reads the key: that of the nkey, or of the credentials.
func (s Security) pair() (nkeys.KeyPair, error) {
	file, what := s.NKey, "nkey"
	if file == "" {
		file, what = s.Credentials, "credentials"
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer clear(text)
	pair, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w", what, file, err)
	}
	return pair, nil
}

// sign signs what the server asks for.
func (s Security) sign(nonce []byte) ([]byte, error) {
	pair, err := s.pair()
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	return pair.Sign(nonce)
}

// replaced reports whether the file has another nkey now. The client library
// keeps the public key for as long as it lives.
func (s Security) replaced(key string) bool {
	if s.NKey == "" {
		return false
	}
	pair, err := s.pair()
	if err != nil {
		return false
	}
	defer pair.Wipe()
	now, err := pair.PublicKey()
	return err == nil && now != key
}

// secure makes the connection one with TLS. The client library's own options
// read the files once before they connect, and give up if they can't.
func (s Security) secure(o *natsgo.Options) error {
	o.Secure = true
	if o.TLSConfig == nil {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if s.CA != "" {
		o.RootCAsCB = func() (*x509.CertPool, error) {
			pem, err := os.ReadFile(s.CA)
			if err != nil {
				return nil, fmt.Errorf("certificates of the server: %w", err)
			}
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("certificates of the server: none in %s", s.CA)
			}
			return pool, nil
		}
	}
	if s.Cert != "" {
		o.TLSCertCB = func() (tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
			if err != nil {
				return pair, fmt.Errorf("certificate in %s with the key in %s: %w", s.Cert, s.Key, err)
			}
			return pair, nil
		}
	}
	return nil
}

// explain adds what the server refuses, without any secret, which the client
// library does not say.
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
