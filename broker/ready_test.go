package broker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/broker"
)

// A startingBroker is a broker that is ready at a time.
type startingBroker struct {
	broker.Broker
	at time.Time
}

var errStarting = errors.New("it starts")

func (s startingBroker) Ready(context.Context) error {
	if time.Now().Before(s.at) {
		return errStarting
	}
	return nil
}

func TestAwaitReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := startingBroker{at: time.Now().Add(time.Second)}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := broker.AwaitReady(ctx, b); !errors.Is(err, errStarting) {
			t.Errorf("after half a second: %v, want what it is waiting for", err)
		}
		if err := broker.AwaitReady(t.Context(), b); err != nil || time.Now().Before(b.at) {
			t.Errorf("at %v: %v, want nil at %v", time.Now(), err, b.at)
		}
	})
}
