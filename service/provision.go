package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/config"
)

// ErrNothingToProvision says that the broker lives inside the serving process, which creates
// the objects that it needs.
var ErrNothingToProvision = errors.New("the broker lives inside the serving process, so there is nothing to provision")

// Provision creates the objects that the routing needs at the broker of the configuration. If
// dry, it only returns the changes that it would make. It returns [ErrNothingToProvision] if
// the broker is inside the serving process.
func Provision(ctx context.Context, cfg config.Config, dry bool, log *slog.Logger) ([]broker.Change, error) {
	if cfg.Embedded() || cfg.Broker == config.GoChannel {
		return nil, ErrNothingToProvision
	}
	b, address, err := openServer(cfg, log, inspecting, nil)
	if err != nil {
		return nil, err
	}
	changes, err := b.Provision(ctx, dry)
	if err != nil {
		err = fmt.Errorf("provision %s: %w", address, err)
	}
	return changes, err
}
