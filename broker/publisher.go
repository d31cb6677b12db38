package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/timer"
)

var (
	// ErrRefused is wrapped by a result if the broker works but will never take the message,
	// since it is too large, or since its topic is not allowed. It is a [timer.ErrInvalid].
	ErrRefused = fmt.Errorf("%w: refused by the broker", timer.ErrInvalid)

	// ErrDeadLettersFull is wrapped by a result if the broker needs the space that is left for
	// other messages than dead letters: without its body one may be taken.
	ErrDeadLettersFull = errors.New("no space for dead letters")

	// ErrUnavailable is wrapped by a result if the broker is away: no message can be
	// published now, whatever its topic.
	ErrUnavailable = errors.New("broker unavailable")

	// ErrDenied is wrapped by an error if the broker denies our user a permission. The text
	// names the permission or the topic. It may be granted later, so no message is refused
	// for good.
	ErrDenied = errors.New("the broker does not permit it")
)

// A Message is a message and the topic that it is published to. Its UUID is the broker's
// deduplication id, and its metadata become headers.
type Message struct {
	Topic string
	*message.Message
}

// A Publisher publishes messages, each with a result of its own. It is safe for
// concurrent use.
type Publisher interface {
	// Publish publishes messages and returns their results in the same order. A result is
	// nil if the broker has made the message durable, an error that wraps [ErrRefused] if it
	// never will, an error that wraps [ErrUnavailable] if the broker is away, and any other
	// error if this topic or partition fails now. After an error other than ErrRefused the
	// message may have been published. After an [ErrDeadLettersFull] it was not, and its
	// publisher drops it, so that dead letters do not fill the space of commands and events.
	//
	// The failure of one message changes no result of another. Messages of one topic and key
	// are sent in the given order. Publish returns when all results are known. Messages
	// without a result when ctx ends get an error.
	Publish(ctx context.Context, messages ...Message) []error
}

// publishTimeout is the longest Publish of a [NewWatermillPublisher].
const publishTimeout = 30 * time.Second

// NewWatermillPublisher returns p as a Watermill publisher. Its Publish returns nil if
// all messages were published, or an error that wraps one result of each text. It ends
// with the context of the first message, and after 30 s. Close does nothing.
func NewWatermillPublisher(p Publisher) message.Publisher { return watermillPublisher{p} }

type watermillPublisher struct{ Publisher }

func (p watermillPublisher) Close() error { return nil }

func (p watermillPublisher) Publish(topic string, messages ...*message.Message) error {
	ctx := context.Background()
	if len(messages) > 0 {
		ctx = messages[0].Context()
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	all := make([]Message, len(messages))
	for i, msg := range messages {
		all[i] = Message{Topic: topic, Message: msg}
	}
	if err := Join(p.Publisher.Publish(ctx, all...)); err != nil {
		return fmt.Errorf("publish to %.200s: %w", topic, err)
	}
	return nil
}

// Join joins the results of a Publish into one error, nil if all are nil. Each text is in
// it once, with the number of messages that have it.
func Join(results []error) error {
	failed := slices.DeleteFunc(slices.Clone(results), func(err error) bool { return err == nil })
	var joined error
	for len(failed) > 0 {
		first, n := failed[0], len(failed)
		failed = slices.DeleteFunc(failed, func(err error) bool { return err.Error() == first.Error() })
		joined = errors.Join(joined, fmt.Errorf("%d of %d messages: %w", n-len(failed), len(results), first))
	}
	return joined
}

// All returns n results that are all err.
func All(n int, err error) []error { return slices.Repeat([]error{err}, n) }

// CleanName returns text with '_' for each character but letters, digits, '-' and '_',
// which every broker takes in a name.
func CleanName(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, text)
}

// CheckName returns an [ErrRefused] unless a topic may have a name: at most most bytes of
// visible ASCII, with none of the prefixes that belong to the server. Kind is the broker's
// word for a topic.
func CheckName(kind, name string, most int, reserved ...string) error {
	why := ""
	switch {
	case name == "":
		why = "is empty"
	case len(name) > most:
		why = fmt.Sprintf("is longer than %d bytes", most)
	case slices.ContainsFunc(reserved, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
		why = "belongs to the server"
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }):
		why = "has a character that is not visible ASCII"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s %s %s", ErrRefused, kind, timer.Quote(name), why)
}
