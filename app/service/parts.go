package service

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// A description says what was opened, for people.
type description struct {
	broker  string // what it is and where
	address string // what clients connect to
}

// openStore opens the database, migrates it, and closes it last.
func openStore(lc fx.Lifecycle, cfg config.Config, log *slog.Logger) (*sqlite.Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := sqlite.Open(ctx, cfg.DBPath, sqlite.Options{Durability: durability(cfg), Events: eventFormat(cfg)})
	if err != nil {
		return nil, err
	}
	lc.Append(fx.StopHook(s.Close))
	return s, nil
}

func durability(cfg config.Config) sqlite.Durability {
	if cfg.Durability == config.Relaxed {
		return sqlite.Relaxed
	}
	return sqlite.Strict
}

// eventFormat is how events are written.
func eventFormat(cfg config.Config) envelope.Format {
	return envelope.Format{CloudEvents: cfg.EventFormat == config.CloudEvents, Source: cfg.EventSource}
}

// openBroker opens the broker that the configuration names, and keeps it
// running. It takes the store so that the store outlives it: the lock of the
// database guards the data of the embedded server too.
func openBroker(
	lc fx.Lifecycle, sd fx.Shutdowner, cfg config.Config, log *slog.Logger, _ *sqlite.Store,
) (broker.Broker, *description, error) {
	if cfg.Broker == config.GoChannel {
		b := gochannel.New(gochannel.Options{Routing: routing(cfg, gochannel.DefaultRouting())}, log)
		app.RunBroker(lc, sd, log, b)
		return b, &description{broker: "gochannel, in this process; nothing is durable", address: "in this process"}, nil
	}
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
	b := nats.New(opt, log)
	app.RunBroker(lc, sd, log, b)
	return b, d, nil
}

func natsOptions(cfg config.Config) (nats.Options, error) {
	r := routing(cfg, nats.DefaultRouting())
	return nats.Options{
		URL:         cfg.BrokerURL.Reveal(),
		Credentials: cfg.NATSCredentials,
		Stream:      cfg.NATSStream,
		MaxBytes:    cfg.NATSMaxBytes,
		MaxAge:      cfg.NATSMaxAge,
		Routing:     r,
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

// routing is the broker's own, with what the configuration changes.
func routing(cfg config.Config, r broker.Routing) broker.Routing {
	for _, o := range []struct {
		topic    *string
		override string
	}{{&r.Commands, cfg.CommandsTopic}, {&r.Events, cfg.EventsTopic}, {&r.DeadLetters, cfg.DeadLettersTopic}} {
		if o.override != "" {
			*o.topic = o.override
		}
	}
	return r
}
