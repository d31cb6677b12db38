package service

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

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
		if opt.Server, d, err = startEmbedded(lc, cfg, log); err != nil {
			return nil, nil, err
		}
	}
	return nats.New(opt, log), d, nil
}

func natsOptions(cfg config.Config) (nats.Options, error) {
	r := routing(cfg, nats.DefaultRouting())
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
		Inbox:    cfg.NATSInbox,
		Domain:   cfg.NATSDomain,
		Stream:   cfg.NATSStream,
		MaxBytes: cfg.NATSMaxBytes,
		MaxAge:   cfg.NATSMaxAge,
		MinAge:   cfg.NATSMinAge,
		Verify:   cfg.Provision == config.Verify && !cfg.Embedded(), // nobody else makes what the embedded server needs
		Routing:  r,
	}, r.Validate()
}

// startEmbedded starts the server in this process, its data beside the
// database, and leaves its address where clients find it.
func startEmbedded(lc fx.Lifecycle, cfg config.Config, log *slog.Logger) (*nats.Embedded, *description, error) {
	dir := embeddedDir(cfg)
	server, err := nats.StartEmbedded(nats.EmbeddedOptions{
		Port:       cfg.NATSPort,
		StoreDir:   dir,
		SyncLazily: cfg.Durability == config.Relaxed,
	}, log)
	if err != nil {
		return nil, nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	lc.Append(fx.StopHook(server.Shutdown))
	if err := writeAddress(dir, server.URL()); err != nil {
		server.Shutdown()
		return nil, nil, err
	}
	d := &description{broker: "nats embedded, data in " + dir, address: server.URL()}
	if server.PortTaken() {
		d.broker += fmt.Sprintf("; port %d is taken by another server, so it listens on a free one", cfg.NATSPort)
	}
	return server, d, nil
}

// embeddedDir is where the embedded server keeps its data: beside the database.
func embeddedDir(cfg config.Config) string {
	return strings.TrimSuffix(cfg.DBPath, filepath.Ext(cfg.DBPath)) + ".nats"
}
