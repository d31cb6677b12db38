package crash

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// streamName is the stream that the service creates.
const streamName = "svc"

// natsWire talks with a NATS server.
type natsWire struct {
	natsPublisher
	nc     *nats.Conn
	stream jetstream.Stream
	now    func() time.Time
}

// dialNATS connects, for as long as it takes, and finds the stream, which the
// service has made.
func dialNATS(ctx context.Context, port int, db string, now func() time.Time) (*natsWire, error) {
	nc, err := Connect(port, "timer-crash", db)
	if err != nil {
		return nil, fmt.Errorf("connect with the broker: %w", err)
	}
	w := &natsWire{nc: nc, now: now}
	if w.js, err = jetstream.New(nc); err == nil {
		w.stream, err = w.js.Stream(ctx, streamName)
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("find the stream of the service: %w", err)
	}
	return w, nil
}

func (w *natsWire) close() { w.nc.Close() }

// observe listens, and reads what the stream keeps.
func (w *natsWire) observe(ctx context.Context, recorder *history.Recorder) (stop func(), err error) {
	return Observe(ctx, w.nc, w.stream, recorder, w.now)
}

// pending queries the consumers and the stream.
func (w *natsWire) pending(ctx context.Context, recorder *history.Recorder) (open, unseen int, err error) {
	if open, err = Waiting(ctx, w.stream, history.CommandsTopic); err != nil {
		return 0, 0, err
	}
	info, err := w.stream.Info(ctx, jetstream.WithSubjectFilter(history.AllTopics))
	if err != nil {
		return 0, 0, fmt.Errorf("read the state of the stream: %w", err)
	}
	for _, messages := range info.State.Subjects {
		unseen += int(messages)
	}
	_, seen := recorder.Count()
	return open, max(unseen-seen, 0), nil // consumed messages may have been removed from the stream
}

// natsPublisher publishes commands to JetStream.
type natsPublisher struct{ js jetstream.JetStream }

// publish sets the id by which the broker drops a command that is sent twice.
func (p natsPublisher) publish(ctx context.Context, c history.Command) (uint64, error) {
	msg := &nats.Msg{Subject: history.CommandsTopic, Data: c.Body, Header: nats.Header{}}
	for name, value := range c.Header {
		msg.Header.Set(name, value)
	}
	ack, err := p.js.PublishMsg(ctx, msg, jetstream.WithMsgID(c.DedupeID), jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}
