package service

import (
	"log/slog"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/config"
)

// kafkaOptions are what the configuration says of Kafka.
func kafkaOptions(cfg config.Config) (kafka.Options, error) {
	r := routing(cfg, kafka.DefaultRouting())
	if err := r.Validate(); err != nil {
		return kafka.Options{}, err
	}
	secure, err := tlsConfig(cfg)
	return kafka.Options{
		URL:      cfg.BrokerURL.Reveal(),
		SASL:     kafka.SASL(cfg.KafkaSASL),
		Username: cfg.BrokerUsername,
		Password: cfg.BrokerPassword.Reveal(),
		TLS:      secure,
		Routing:  r,
		MaxAge:   cfg.KafkaMaxAge,
		Verify:   cfg.Provision == config.Verify,
	}, err
}

// openKafka returns a broker that connects with Kafka.
func openKafka(cfg config.Config, log *slog.Logger) (broker.Broker, *description, error) {
	opt, err := kafkaOptions(cfg)
	if err != nil {
		return nil, nil, err
	}
	address := redact(opt.URL)
	return kafka.New(opt, log), &description{broker: "kafka " + address, address: address}, nil
}

// kafkaClient returns a broker for clients.
func kafkaClient(cfg config.Config, log *slog.Logger) (broker.Broker, string, error) {
	opt, err := kafkaOptions(cfg)
	if err != nil {
		return nil, "", err
	}
	opt.Client = true
	return kafka.New(opt, log), redact(opt.URL), nil
}
