package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

// Parts that package power, package bench and the tests of faults use too.

// Produce publishes rate commands a second until stop is closed, and returns
// when each is confirmed or given up.
func Produce(ctx context.Context, js jetstream.JetStream, from *traffic.Generator, rate int, recorder *history.Recorder, stop <-chan struct{}) {
	p := producer{to: &natsPublisher{servers: []jetstream.JetStream{js}}, make: from, recorder: recorder, rate: rate}
	p.run(ctx, stop)
}

// Observe records the messages of the service to the broker, until stop is called. It
// must begin before the first command is sent.
func Observe(ctx context.Context, nc *nats.Conn, stream jetstream.Stream, recorder *history.Recorder) (stop func(), err error) {
	o, err := observe(ctx, nc, stream, recorder)
	if err != nil {
		return nil, err
	}
	return o.stop, nil
}

// reconnectPause is short, since a broker may live no longer than 40 ms.
const reconnectPause = 20 * time.Millisecond

// Connect connects with a broker, for as long as it takes: a broker that is down for a while
// is expected. If it is the one within a service its secret is next to the database; others need
// none.
func Connect(url, name, db string) (*nats.Conn, error) {
	credentials := func() (user, password string) {
		secret, err := os.ReadFile(strings.TrimSuffix(db, ".db") + ".nats/secret")
		if err != nil {
			return "", ""
		}
		return "timer-service", strings.TrimSpace(string(secret))
	}
	return connect(url, name, nats.UserInfoHandler(credentials))
}

// connect connects with servers, for as long as it takes.
func connect(url, name string, options ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append(options, nats.Name(name),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectPause), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
}

// Waiting returns how many commands of a topic the service has not acked, as the broker counts.
func Waiting(ctx context.Context, stream jetstream.Stream, topic string) (waiting int, err error) {
	consumers := stream.ListConsumers(ctx)
	found := false
	for c := range consumers.Info() {
		if c.Config.Durable != "" && (c.Config.FilterSubject == topic || slices.Contains(c.Config.FilterSubjects, topic)) {
			found = true
			waiting += int(c.NumPending) + c.NumAckPending
		}
	}
	if err := consumers.Err(); err != nil {
		return 0, fmt.Errorf("list the consumers: %w", err)
	}
	if !found {
		return 0, errors.New("the service has no durable consumer of its commands")
	}
	return waiting, nil
}
