package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/kafka"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/config"
)

// ErrNothingToProvision says that the broker lives inside the serving process,
// which makes what it needs.
var ErrNothingToProvision = errors.New("the broker lives inside the serving process, so there is nothing to provision")

// Provision makes what the routing needs at the broker that the configuration
// names, or, if dry, only returns what it would make. It returns
// [ErrNothingToProvision] if that is inside the serving process.
func Provision(ctx context.Context, cfg config.Config, dry bool, log *slog.Logger) ([]broker.Change, error) {
	b, err := provisioned(cfg, log)
	if err != nil {
		return nil, err
	}
	changes, err := b.Provision(ctx, dry)
	if err != nil {
		return changes, fmt.Errorf("provision %s: %w", redact(cfg.BrokerURL.Reveal()), err)
	}
	return changes, nil
}

// provisioned returns the broker that the configuration names, which is not run.
func provisioned(cfg config.Config, log *slog.Logger) (broker.Broker, error) {
	switch {
	case cfg.Embedded(), cfg.Broker == config.GoChannel:
		return nil, ErrNothingToProvision
	case cfg.Broker == config.Kafka:
		opt, err := kafkaOptions(cfg)
		return kafka.New(opt, log), err
	case cfg.Broker == config.RabbitMQ:
		return rabbitProvision(cfg, log)
	}
	opt, err := natsOptions(cfg)
	if err != nil {
		return nil, err
	}
	opt.Name = "timer-provision"
	return nats.New(opt, log), nil
}
