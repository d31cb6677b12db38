package service

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/config"
)

// tlsConfig returns the TLS settings for the broker: the authority that signs its
// certificate, and our own certificate. It returns nil if neither is set; then the
// authorities of the system are trusted.
func tlsConfig(cfg config.Config) (*tls.Config, error) {
	if cfg.BrokerTLSCA == "" && cfg.BrokerTLSCert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.BrokerTLSCA != "" {
		pem, err := os.ReadFile(cfg.BrokerTLSCA)
		if err != nil {
			return nil, fmt.Errorf("broker_tls_ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("broker_tls_ca: %s has no certificate in PEM form", cfg.BrokerTLSCA)
		}
	}
	if cfg.BrokerTLSCert != "" {
		own, err := tls.LoadX509KeyPair(cfg.BrokerTLSCert, cfg.BrokerTLSKey)
		if err != nil {
			return nil, fmt.Errorf("broker_tls_cert and broker_tls_key: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

// watchCertificate returns the files of the certificate of HTTP, and TLS settings with the certificate
// that was loaded last.
func watchCertificate(cert, key string, log *slog.Logger) (*watchedFile, *tls.Config) {
	var last atomic.Pointer[tls.Certificate]
	files := &watchedFile{
		file: cert, also: key, log: log, is: "a new certificate of HTTP is in force", wrong: "http_tls_cert or http_tls_key is wrong, the old certificate stays in force",
		load: func() (string, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return "", fmt.Errorf("http_tls_cert and http_tls_key: %w", err)
			}
			last.Store(&pair)
			return "until " + pair.Leaf.NotAfter.UTC().Format(time.RFC3339), nil
		},
	}
	return files, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return last.Load(), nil }}
}
