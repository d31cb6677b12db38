package crash

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/crash/history"
	"github.com/event-service-agent/timer-service/internal/crash/traffic"
)

// The parts of this test that others are made of, too.

// Produce publishes so many commands a second until stop is closed, and returns
// when each is confirmed or given up.
func Produce(ctx context.Context, js jetstream.JetStream, from *traffic.Generator, rate int, recorder *history.Recorder, now func() time.Time, stop <-chan struct{}) {
	p := producer{to: natsPublisher{js}, make: from, recorder: recorder, now: now, rate: rate}
	p.run(ctx, stop)
}

// Observe records what the service tells the broker, until stop is called. It
// must begin before the first command is sent.
func Observe(ctx context.Context, nc *nats.Conn, stream jetstream.Stream, recorder *history.Recorder, now func() time.Time) (stop func(), err error) {
	o, err := observe(ctx, nc, stream, recorder, now)
	if err != nil {
		return nil, err
	}
	return o.stop, nil
}

// StartServer starts a broker that keeps its data in dir, and returns the URL
// that the service connects with.
func StartServer(ctx context.Context, kind Kind, dir string) (Server, string, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, "", err
	}
	s, err := kinds[kind].start(ctx, dir, port)
	return s, kinds[kind].scheme + address(port), err
}

// FreePort returns a port of the loopback interface where nobody listens, and
// to which a client may connect again and again.
func FreePort(ctx context.Context) (int, error) { return freePort(ctx) }

// reconnectPause is short, since a broker may live no longer than 40 ms.
const reconnectPause = 20 * time.Millisecond

// Connect connects with a broker on a port of the loopback interface, for as
// long as it takes: one that is dead for a while is no news.
func Connect(port int, name string) (*nats.Conn, error) {
	return nats.Connect("nats://"+address(port), nats.Name(name),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectPause), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
}

// IsIntake reports whether a consumer is the one through which the service
// takes commands.
func IsIntake(c jetstream.ConsumerConfig) bool {
	return c.Durable != "" && (c.FilterSubject == history.CommandsTopic || slices.Contains(c.FilterSubjects, history.CommandsTopic))
}

// Watch returns a writer that passes on to out, and calls found once, at the
// first line that begins so.
func Watch(out io.Writer, line string, found func()) io.Writer {
	return &watcher{out: out, line: line, found: found}
}

// Environ returns the environment without settings of the service, which a
// process of it must not take from outside.
func Environ() []string { return environ() }
