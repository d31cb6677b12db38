package service

import (
	"log/slog"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/config"
)

// openNATS returns a broker that connects with NATS, elsewhere or embedded.
func openNATS(lc fx.Lifecycle, cfg config.Config, log *slog.Logger) (broker.Broker, *description, error) {
	opt, err := natsOptions(cfg)
	if err != nil {
		return nil, nil, err
	}
	d := &description{broker: "nats " + redact(cfg.BrokerURL.Reveal()), address: redact(cfg.BrokerURL.Reveal())}
	if cfg.Embedded() {
		if d, err = startEmbedded(lc, cfg, &opt, log); err != nil {
			return nil, nil, err
		}
	}
	return nats.New(opt, log), d, nil
}

func natsOptions(cfg config.Config) (nats.Options, error) {
	r := routing(cfg, nats.DefaultRouting(), nats.DefaultReceipts)
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
		Routing:       r,
	}, r.Validate()
}
