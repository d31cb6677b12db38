package crash

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// acksTopic has every answer of a consumer to JetStream.
const acksTopic = "$JS.ACK.>"

// listenTimeout is how long the broker may take until the observer is subscribed.
const listenTimeout = 5 * time.Second

// An observer records the messages of the service to the broker: messages that the broker keeps,
// and, listening in, repetitions and acks.
type observer struct {
	recorder *history.Recorder
	undo     []func()
}

// observe begins to record. It must begin before the first command is sent.
func observe(ctx context.Context, nc *nats.Conn, stream jetstream.Stream, recorder *history.Recorder) (*observer, error) {
	o := &observer{recorder: recorder}
	for topic, handler := range map[string]nats.MsgHandler{acksTopic: o.ack, history.AllTopics: o.attempt} {
		sub, err := nc.Subscribe(topic, handler)
		if err != nil {
			o.stop()
			return nil, fmt.Errorf("listen to %s: %w", topic, err)
		}
		o.undo = append(o.undo, func() { _ = sub.Unsubscribe() }) // fails only if the connection is gone
		if err := sub.SetPendingLimits(-1, -1); err != nil {
			o.stop()
			return nil, fmt.Errorf("listen to %s: %w", topic, err)
		}
	}
	if err := nc.FlushTimeout(listenTimeout); err != nil { // from here on nothing is missed
		o.stop()
		return nil, fmt.Errorf("listen: %w", err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{history.AllTopics},
		DeliverPolicy:  jetstream.DeliverAllPolicy,
	})
	if err != nil {
		o.stop()
		return nil, fmt.Errorf("read events: %w", err)
	}
	reading, err := consumer.Consume(o.message)
	if err != nil {
		o.stop()
		return nil, fmt.Errorf("read events: %w", err)
	}
	o.undo = append(o.undo, reading.Stop)
	return o, nil
}

// stop ends the recording.
func (o *observer) stop() {
	for _, undo := range o.undo {
		undo()
	}
}

// message records a message that the broker keeps.
func (o *observer) message(msg jetstream.Msg) {
	if m, err := kept(msg); err == nil { // an error: it is not from the stream
		o.recorder.Message(m)
	}
}

// kept returns a message of the stream as it is recorded.
func kept(msg jetstream.Msg) (history.Message, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return history.Message{}, err
	}
	return history.Message{
		Topic: msg.Subject(), Seq: meta.Sequence.Stream, At: meta.Timestamp,
		Header: flat(msg.Headers()), Body: msg.Data(),
	}, nil
}

// attempt records a message that is published.
func (o *observer) attempt(msg *nats.Msg) {
	o.recorder.Attempt(history.Message{Topic: msg.Subject, At: time.Now(), Body: msg.Data})
}

// ack records that a message is acked.
func (o *observer) ack(msg *nats.Msg) {
	if seq, ok := ackedSeq(msg.Subject, string(msg.Data)); ok {
		o.recorder.Accepted(seq, time.Now())
	}
}

// ackedSeq returns which message of the stream an answer acks. The topic is
//
//	$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>
//
// or the same with <domain>.<account hash> before the stream, and perhaps more
// at the end.
func ackedSeq(topic, answer string) (uint64, bool) {
	if answer != "" && !strings.HasPrefix(answer, "+ACK") && !strings.HasPrefix(answer, "+NXT") {
		return 0, false
	}
	token := strings.Split(topic, ".")
	place := 5
	if len(token) > 9 {
		place += 2
	}
	if len(token) < 9 {
		return 0, false
	}
	seq, err := strconv.ParseUint(token[place], 10, 64)
	return seq, err == nil
}

// flat joins the values of a header, of which each should have one.
func flat(header nats.Header) map[string]string {
	h := make(map[string]string, len(header))
	for name, values := range header {
		h[name] = strings.Join(values, ", ")
	}
	return h
}
