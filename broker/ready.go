package broker

import (
	"context"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// AwaitReady returns nil as soon as b is ready. It is for a program that publishes right
// after its start. If ctx is done first it returns the last error of b.Ready.
func AwaitReady(ctx context.Context, b Broker) (err error) {
	_ = pause.Until(ctx, func() (bool, error) {
		err = b.Ready(ctx)
		return err == nil, nil
	})
	return err
}
