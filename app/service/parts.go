package service

import (
	"cmp"
	"log/slog"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
)

// A description is what was opened, for people.
type description struct {
	broker  string // what it is and where
	address string // what clients connect to
	http    string // where HTTP is answered; empty if it is not
}

// brokerName says which broker it is, without credentials.
func brokerName(cfg config.Config) string {
	switch {
	case cfg.Embedded():
		return "the embedded NATS server in " + embeddedDir(cfg)
	case cfg.BrokerURL.Empty():
		return string(cfg.Broker)
	}
	return redact(cfg.BrokerURL.Reveal())
}

// eventFormat is how events are written.
func eventFormat(cfg config.Config) envelope.Format {
	return envelope.Format{CloudEvents: cfg.EventFormat == config.CloudEvents, Source: cfg.EventSource}
}

// openBroker opens the broker that the configuration names, which the app runs. The
// store is a parameter so that it is closed later: the lock of a SQLite
// file guards the data of the embedded server too.
func openBroker(
	lc fx.Lifecycle, cfg config.Config, log *slog.Logger, _ app.Store,
) (broker.Broker, *description, error) {
	if cfg.Broker == config.GoChannel {
		log.Warn("gochannel keeps messages in the memory of this process; they are lost when it ends")
		b := gochannel.New(gochannel.Options{Routing: routing(cfg, gochannel.DefaultRouting(), gochannel.DefaultReceipts)}, log)
		return b, &description{broker: "gochannel, in this process; nothing is durable", address: "in this process"}, nil
	}
	return openServer(lc, cfg, log)
}

// openServer returns a broker that has a server.
func openServer(lc fx.Lifecycle, cfg config.Config, log *slog.Logger) (broker.Broker, *description, error) {
	switch cfg.Broker {
	case config.Kafka:
		return openKafka(cfg, log)
	case config.RabbitMQ:
		return openRabbitMQ(cfg, log)
	}
	return openNATS(lc, cfg, log)
}

// routing is the broker's own, with what the configuration changes.
func routing(cfg config.Config, r broker.Routing, receipts string) broker.Routing {
	if cfg.Receipts {
		r.Receipts = cmp.Or(cfg.ReceiptsTopic, receipts)
	}
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
