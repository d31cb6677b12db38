package service

import (
	"crypto/tls"

	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/config"
)

func rabbitOptions(cfg config.Config) (rabbitmq.Options, error) {
	_, err := tlsConfig(cfg)
	return rabbitmq.Options{
		URL:      cfg.BrokerURL.Reveal(),
		Username: cfg.BrokerUsername,
		Password: cfg.BrokerPassword.Reveal(),
		// The files are read for each connection, because they may be replaced.
		TLS:       func() (*tls.Config, error) { return tlsConfig(cfg) },
		Routing:   routing(cfg, rabbitmq.DefaultRouting(), rabbitmq.DefaultReceipts),
		Exchange:  cfg.RabbitMQExchange,
		QueueType: rabbitmq.QueueType(cfg.RabbitMQQueueType),
		Verify:    cfg.Provision == config.Verify,
	}, err
}
