package service

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/config"
)

// kafkaOptions returns the options of the configuration.
func kafkaOptions(cfg config.Config) (kafka.Options, error) {
	opt := kafka.Options{
		URL:      cfg.BrokerURL.Reveal(),
		SASL:     kafka.SASL(cfg.KafkaSASL),
		Username: cfg.BrokerUsername,
		Password: cfg.BrokerPassword.Reveal(),
		Routing:  routing(cfg, kafka.DefaultRouting(), kafka.DefaultReceipts),
		MaxAge:   cfg.KafkaMaxAge,
		Verify:   cfg.Provision == config.Verify,
		Instance: instance(cfg),
	}
	secure, err := tlsConfig(cfg)
	if secure != nil {
		opt.TLS = func() (*tls.Config, error) { return tlsConfig(cfg) } // files may be replaced
	}
	return opt, err
}

// instance names this service by its machine and its database, which no other process can
// have open. If a service starts again under the same name, Kafka gives it its partitions at
// once. Under another name it waits until the session of the dead process has expired.
// Instances that share a database have no name of their own.
func instance(cfg config.Config) string {
	if !cfg.DBURL.Empty() {
		return ""
	}
	host, noHost := os.Hostname()
	path, noPath := filepath.Abs(cfg.DBPath)
	if noHost != nil || noPath != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(host + "\n" + path))
	return "timer-service-" + hex.EncodeToString(sum[:6])
}
