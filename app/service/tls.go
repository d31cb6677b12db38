package service

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/event-service-agent/timer-service/config"
)

// tlsConfig returns what the configuration says of TLS with the broker: who
// signs its certificate, and our own. It returns nil if that is nothing; what
// the system trusts is trusted then.
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
			return nil, fmt.Errorf("broker_tls_ca: %s holds no certificate in PEM form", cfg.BrokerTLSCA)
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
