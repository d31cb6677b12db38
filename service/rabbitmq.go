package service

import (
	"crypto/tls"

	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/config"
)

func rabbitOptions(cfg config.Config) (rabbitmq.Options, error) {
	_, err := tlsConfig(cfg)
	return rabbitmq.Options{
		URL:       cfg.BrokerURL.Reveal(),
		Username:  cfg.BrokerUsername,
		Password:  cfg.BrokerPassword.Reveal(),
		TLS:       func() (*tls.Config, error) { return tlsConfig(cfg) }, // again for each connection: files are replaced
		Routing:   routing(cfg, rabbitmq.DefaultRouting(), rabbitmq.DefaultReceipts),
		Exchange:  cfg.RabbitMQExchange,
		QueueType: rabbitmq.QueueType(cfg.RabbitMQQueueType),
		Verify:    cfg.Provision == config.Verify,
	}, err
}
