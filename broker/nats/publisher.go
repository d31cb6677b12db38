package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
)

const (
	publishTimeout = 20 * time.Second // longest wait for the acks of a call
	maxUnacked     = 8192             // messages sent and not acked, of all calls together
)

// publisher publishes to the stream. See [broker.Broker] for its contract.
type publisher struct{ *Broker }

// Close does nothing: the connection ends with [Broker.Run].
func (p publisher) Close() error { return nil }

// Publish returns when the stream has stored all messages. Nothing is published
// if one of them is refused before it is sent.
func (p publisher) Publish(topic string, messages ...*message.Message) error {
	topics := make([]string, len(messages))
	for i := range topics {
		topics[i] = topic
	}
	return p.PublishTo(topics, messages)
}

// PublishTo publishes each message to the topic at the same index, otherwise as
// Publish does. Batches do not mind how many topics they hold.
func (p publisher) PublishTo(topics []string, messages []*message.Message) error {
	out := make([]*natsgo.Msg, len(messages))
	for i, msg := range messages {
		var err error
		if out[i], err = marshal(topics[i], msg); err != nil {
			return fmt.Errorf("publish %s: %w", msg.UUID, err)
		}
	}
	if len(out) == 0 {
		return nil
	}
	s, err := p.current()
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topics[0], err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishTimeout)
	defer cancel()
	out, err = p.publishBatches(ctx, s, out)
	if err == nil {
		err = p.pipeline(ctx, s, out)
	}
	if err != nil {
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			p.check()
		}
		return fmt.Errorf("publish to %s: %w", topics[0], err)
	}
	return nil
}

// pipeline sends messages one behind the other and waits for all acks. After
// the first that can't be sent it sends no more.
func (p publisher) pipeline(ctx context.Context, s *session, messages []*natsgo.Msg) error {
	var failed failures
	known := s.acks.send(ctx, messages, &failed)
	s.pace.acked.Add(int64(len(messages) - failed.messages()))
	p.contest(ctx, s, known, &failed)
	return failed.join(len(messages))
}

// Codes of JetStream errors for which the client library has no names.
const (
	codeMessageTooLarge = 10054
	codeHeadersTooLarge = 10097
)

// refusal makes an error a [broker.ErrRefused] if no retry can help.
func refusal(err error) error {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if ok && (api.ErrorCode == codeMessageTooLarge || api.ErrorCode == codeHeadersTooLarge) ||
		errors.Is(err, natsgo.ErrMaxPayload) || errors.Is(err, natsgo.ErrBadSubject) {
		return fmt.Errorf("%w: %w", broker.ErrRefused, err)
	}
	return err
}

// failures are what went wrong in one call. A thousand messages that fail for
// one reason are one failure.
type failures struct {
	errs   []error
	counts []int
}

func (f *failures) add(messages int, err error) {
	for i, known := range f.errs {
		if known.Error() == err.Error() {
			f.counts[i] += messages
			return
		}
	}
	f.errs = append(f.errs, err)
	f.counts = append(f.counts, messages)
}

func (f *failures) merge(others failures) {
	for i, err := range others.errs {
		f.add(others.counts[i], err)
	}
}

// messages returns how many failed.
func (f *failures) messages() (n int) {
	for _, count := range f.counts {
		n += count
	}
	return n
}

// join returns all failures as one error, nil if there is none.
func (f *failures) join(messages int) error {
	var err error
	for i, e := range f.errs {
		err = errors.Join(err, fmt.Errorf("%d of %d messages: %w", f.counts[i], messages, e))
	}
	return err
}
