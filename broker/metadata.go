package broker

import (
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/internal/retry"
)

// Metadata that a subscriber adds to every message it delivers. They are not
// headers of the message and are never published.
const (
	MetaTopic    = "broker_topic"    // topic the message was published to, such as a NATS subject
	MetaPosition = "broker_position" // where it stands there, such as a stream sequence; unique within the topic's log
	MetaDelivery = "broker_delivery" // how often it has been delivered, from "1"; absent if the broker does not count
	MetaNoID     = "broker_no_id"    // "true" if the message came without an id, so that its UUID was made up; else absent
)

// Received returns a message as a subscriber delivers it, with the id that its producer
// gave it, or one that is made up, and the topic that it was published to.
func Received(id, topic string, body []byte) *message.Message {
	none := id == ""
	if none {
		id = uuid.NewString()
	}
	msg := message.NewMessage(id, body)
	if none {
		msg.Metadata[MetaNoID] = "true"
	}
	msg.Metadata[MetaTopic] = topic
	return msg
}

// IsMeta reports whether a name is one of the metadata of this process, which a driver
// neither publishes nor takes from a header.
func IsMeta(name string) bool {
	return name == MetaTopic || name == MetaPosition || name == MetaDelivery || name == MetaNoID || name == metaRetry
}

// IsHeader reports whether a name is a token by RFC 9110, section 5.6.2, which every
// client can read as the name of a header.
func IsHeader(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return name != ""
}

// metaRetry is where a handler leaves the delay that it asks for.
const metaRetry = "broker_retry_after"

// Deliveries returns how often a message has been delivered, this time included;
// 1 if the broker does not count.
func Deliveries(msg *message.Message) int {
	n, err := strconv.Atoi(msg.Metadata.Get(MetaDelivery))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// RetryAfter asks for the next delivery of a message after a delay. The handler
// calls it before it nacks the message.
func RetryAfter(msg *message.Message, delay time.Duration) {
	msg.Metadata[metaRetry] = strconv.FormatInt(max(0, delay.Milliseconds()), 10)
}

// maxRetryDelay bounds what a handler may ask for.
const maxRetryDelay = time.Hour

// RetryDelay returns how long to wait before a nacked message is delivered again:
// what its handler asked for with [RetryAfter], at most an hour, else
// [RedeliveryDelay] of its deliveries.
func RetryDelay(msg *message.Message, deliveries int) time.Duration {
	if ms, err := strconv.ParseInt(msg.Metadata[metaRetry], 10, 64); err == nil && ms >= 0 {
		return min(time.Duration(min(ms, maxRetryDelay.Milliseconds()))*time.Millisecond, maxRetryDelay)
	}
	return RedeliveryDelay(deliveries)
}

// RedeliveryDelay returns how long to wait before a nacked message is delivered
// again if its handler does not say: 1 s, 5 s, then 25 s, by how often it has
// been delivered (from 1), each between 0.8 and 1.2 times, so that messages
// nacked together do not return together.
func RedeliveryDelay(deliveries int) time.Duration { return retry.Redelivery.After(deliveries) }
