package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
)

// A description tells people which parts were opened.
type description struct {
	broker  string // kind and address of the broker
	address string // address for clients
	http    string // address of HTTP; empty if it is not served
}

// brokerName describes the broker, without credentials.
func brokerName(cfg config.Config) string {
	switch {
	case cfg.Embedded():
		return "the embedded NATS server in " + embeddedDir(cfg)
	case cfg.BrokerURL.Empty():
		return string(cfg.Broker)
	}
	return cfg.BrokerURL.URL()
}

// eventFormat returns the format of events.
func eventFormat(cfg config.Config) envelope.Format {
	return envelope.Format{CloudEvents: cfg.EventFormat == config.CloudEvents, Source: cfg.EventSource}
}

// openBroker opens the broker of the configuration, which the app runs. It takes the store as
// a parameter so that the store is closed later: the lock of a SQLite file guards the data of
// the embedded server too.
func openBroker(
	lc fx.Lifecycle, cfg config.Config, log *slog.Logger, _ app.Store,
) (broker.Broker, *description, error) {
	if cfg.Broker == config.GoChannel {
		log.Warn("gochannel keeps messages in the memory of this process; they are lost when it ends")
		b := gochannel.New(gochannel.Options{Routing: routing(cfg, gochannel.DefaultRouting(), gochannel.DefaultReceipts)}, log)
		return b, &description{broker: "gochannel, in this process; nothing is durable", address: "in this process"}, nil
	}
	var d *description
	s, address, err := openServer(cfg, log, serving, func(opt *nats.Options) (err error) {
		d, err = startEmbedded(lc, cfg, opt, log)
		return err
	})
	if d == nil { // the server is not embedded
		d = &description{broker: string(cfg.Broker) + " " + address, address: address}
	}
	if cfg.Broker == config.RabbitMQ {
		d.broker += ", exchange " + cfg.RabbitMQExchange
	}
	return s, d, err
}

// A purpose says for which use a broker is opened.
type purpose string

const (
	serving    purpose = ""
	sending    purpose = "timer-client"    // publish commands and wait for events
	inspecting purpose = "timer-provision" // read the configuration, and create missing objects
)

// A server is a broker outside this process.
type server interface {
	broker.Broker
	Inspect(ctx context.Context, role string) (broker.Inspection, error)
}

// openServer returns the broker of the configuration, which must have an address, and that
// address, for people. It sends nothing to the network. An embedded server is started by
// embed.
func openServer(cfg config.Config, log *slog.Logger, what purpose, embed func(*nats.Options) error) (server, string, error) {
	switch cfg.Broker {
	case config.Kafka:
		opt, err := kafkaOptions(cfg)
		opt.Client = what == sending
		return kafka.New(opt, log), config.NewSecret(opt.URL).URL(), errors.Join(err, opt.Routing.Validate())
	case config.RabbitMQ:
		opt, err := rabbitOptions(cfg)
		opt.Client, opt.Verify, opt.Name = what == sending, opt.Verify && what != inspecting, string(what)
		return rabbitmq.New(opt, log), config.NewSecret(opt.URL).URL(), errors.Join(err, opt.Routing.Validate())
	case config.NATS:
	default:
		return nil, "", fmt.Errorf("there is no broker %q outside this process", cfg.Broker)
	}
	opt := natsOptions(cfg)
	err := opt.Routing.Validate()
	if err == nil && cfg.Embedded() {
		err = embed(&opt)
	}
	opt.Client, opt.Name = what == sending, string(what)
	return nats.New(opt, log), config.NewSecret(opt.URL).URL(), err
}

// routing returns the broker's own routing with the changes of the configuration.
func routing(cfg config.Config, r broker.Routing, receipts string) broker.Routing {
	if cfg.Receipts {
		r.Receipts = cmp.Or(cfg.ReceiptsTopic, receipts)
	}
	r.Commands, r.Events, r.DeadLetters = cmp.Or(cfg.CommandsTopic, r.Commands), cmp.Or(cfg.EventsTopic, r.Events), cmp.Or(cfg.DeadLettersTopic, r.DeadLetters)
	return r
}
