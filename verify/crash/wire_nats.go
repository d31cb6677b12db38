package crash

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// streamName is the stream that the service creates.
const streamName = "svc"

// natsWire talks with a NATS server, or with three.
type natsWire struct {
	natsPublisher
	conns  []*nats.Conn // the first observes and queries
	stream jetstream.Stream
}

// dialNATS connects, for as long as it takes, and finds the stream, which is there. Commands
// go to three servers in turn, so a server that was cut off does not stop them.
func dialNATS(ctx context.Context, r *run) (*natsWire, error) {
	w := &natsWire{}
	if err := w.dial(ctx, r); err != nil {
		w.close()
		return nil, fmt.Errorf("find the stream of the service: %w", err)
	}
	return w, nil
}

func (w *natsWire) dial(ctx context.Context, r *run) error {
	if r.cluster == nil {
		nc, err := Connect("nats://"+freeport.Address(r.port), "timer-crash", r.databasePath())
		if err != nil {
			return err
		}
		w.conns = append(w.conns, nc)
	} else {
		for _, url := range append([]string{r.cluster.URL()}, r.cluster.URLs()...) {
			nc, err := connect(url, "timer-crash", nats.IgnoreDiscoveredServers(), nats.RetryOnFailedConnect(true))
			if err != nil {
				return err
			}
			w.conns = append(w.conns, nc)
		}
	}
	for _, nc := range w.conns {
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		w.servers = append(w.servers, js)
	}
	var err error
	w.stream, err = w.servers[0].Stream(ctx, streamName)
	if len(w.servers) > 1 {
		w.servers = w.servers[1:]
	}
	return err
}

func (w *natsWire) close() {
	for _, nc := range w.conns {
		nc.Close()
	}
}

// observe listens, and reads the messages of the stream.
func (w *natsWire) observe(ctx context.Context, recorder *history.Recorder) (stop func(), err error) {
	return Observe(ctx, w.conns[0], w.stream, recorder)
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

// natsPublisher publishes commands to JetStream, to one server after the other.
type natsPublisher struct {
	servers []jetstream.JetStream
	turn    atomic.Uint64
}

// publish sets the id by which the broker drops a command that is sent twice.
func (p *natsPublisher) publish(ctx context.Context, c history.Command) (uint64, error) {
	msg := &nats.Msg{Subject: history.CommandsTopic, Data: c.Body, Header: nats.Header{}}
	for name, value := range c.Header {
		msg.Header.Set(name, value)
	}
	ack, err := p.servers[p.turn.Add(1)%uint64(len(p.servers))].PublishMsg(ctx, msg, jetstream.WithMsgID(c.DedupeID), jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}
