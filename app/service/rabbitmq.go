package service

import (
	"crypto/tls"
	"log/slog"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/config"
)

func rabbitOptions(cfg config.Config) (rabbitmq.Options, error) {
	r := routing(cfg, rabbitmq.DefaultRouting(), rabbitmq.DefaultReceipts)
	if err := r.Validate(); err != nil {
		return rabbitmq.Options{}, err
	}
	_, err := tlsConfig(cfg)
	return rabbitmq.Options{
		URL:       cfg.BrokerURL.Reveal(),
		Username:  cfg.BrokerUsername,
		Password:  cfg.BrokerPassword.Reveal(),
		TLS:       func() (*tls.Config, error) { return tlsConfig(cfg) }, // again for each connection: files are replaced
		Routing:   r,
		Exchange:  cfg.RabbitMQExchange,
		QueueType: rabbitmq.QueueType(cfg.RabbitMQQueueType),
		Verify:    cfg.Provision == config.Verify,
	}, err
}

// openRabbitMQ returns a broker that connects with RabbitMQ.
func openRabbitMQ(cfg config.Config, log *slog.Logger) (broker.Broker, *description, error) {
	opt, err := rabbitOptions(cfg)
	if err != nil {
		return nil, nil, err
	}
	address := redact(opt.URL)
	return rabbitmq.New(opt, log), &description{broker: "rabbitmq " + address + ", exchange " + opt.Exchange, address: address}, nil
}

// rabbitClient returns a broker for clients.
func rabbitClient(cfg config.Config, log *slog.Logger) (broker.Broker, string, error) {
	opt, err := rabbitOptions(cfg)
	if err != nil {
		return nil, "", err
	}
	opt.Client, opt.Name = true, "timer-client"
	return rabbitmq.New(opt, log), redact(opt.URL), nil
}

// rabbitProvision returns a broker for an administrator, who makes what the
// service only verifies.
func rabbitProvision(cfg config.Config, log *slog.Logger) (broker.Broker, error) {
	opt, err := rabbitOptions(cfg)
	if err != nil {
		return nil, err
	}
	opt.Verify, opt.Name = false, "timer-provision"
	return rabbitmq.New(opt, log), nil
}
