package service

import (
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/config"
)

func natsOptions(cfg config.Config) nats.Options {
	return nats.Options{
		URL: cfg.BrokerURL.Reveal(),
		Security: nats.Security{
			Credentials: cfg.NATSCredentials,
			NKey:        cfg.NATSNKey,
			Username:    cfg.BrokerUsername,
			Password:    cfg.BrokerPassword.Reveal(),
			Token:       cfg.NATSToken.Reveal(),
			CA:          cfg.BrokerTLSCA,
			Cert:        cfg.BrokerTLSCert,
			Key:         cfg.BrokerTLSKey,
		},
		Inbox:         cfg.NATSInbox,
		AtomicBatches: cfg.NATSPublish == config.Batches || cfg.Embedded() && cfg.Durability == config.Strict,
		Domain:        cfg.NATSDomain,
		Stream:        cfg.NATSStream,
		MaxBytes:      cfg.NATSMaxBytes,
		MaxAge:        cfg.NATSMaxAge,
		MinAge:        cfg.NATSMinAge,
		Verify:        cfg.Provision == config.Verify && !cfg.Embedded(), // no other process provisions the embedded server
		Routing:       routing(cfg, nats.DefaultRouting(), nats.DefaultReceipts),
	}
}
