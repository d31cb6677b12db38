package nats_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/event-service-agent/timer-service/internal/testcert"
)

// An identity is a certificate that signs itself, in files.
type identity struct {
	tls.Certificate

	trusts    *x509.CertPool // trusts the certificate
	file, key string
}

func newIdentity(t testing.TB) identity {
	t.Helper()
	cert, pool := testcert.New(t)
	dir := t.TempDir()
	testcert.Write(t, dir, cert)
	return identity{cert, pool, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

// server returns the configuration of a server that shows the certificate.
func (i identity) server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{i.Certificate}, MinVersion: tls.VersionTLS12}
}

// replace copies a file over another, as one who rotates secrets does.
func replace(t testing.TB, file, by string) {
	t.Helper()
	text, err := os.ReadFile(by)
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
}
