package broker

import (
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/internal/retry"
)

// A subscriber adds these metadata to every message that it delivers. They are not
// headers of the message and are never published.
const (
	MetaTopic    = "broker_topic"    // topic that the message was published to, such as a NATS subject
	MetaPosition = "broker_position" // position in the topic's log, such as a sequence; unique there
	MetaSeek     = "broker_seek"     // where a visit to dead letters can begin with this one; absent if the broker can't seek
	MetaDelivery = "broker_delivery" // count of deliveries, from "1"; absent if it is not counted
	MetaNoID     = "broker_no_id"    // "true" if the message had no id, so that its UUID is made up
)

// Received returns a message as a subscriber delivers it. It has the id that its producer
// gave it, or a made-up one, and the topic that it was published to.
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

// IsMeta reports whether a name is a name of metadata of this process. A driver neither
// publishes these nor reads them from headers.
func IsMeta(name string) bool {
	return name == MetaTopic || name == MetaPosition || name == MetaSeek || name == MetaDelivery || name == MetaNoID
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

// Deliveries returns how often a message has been delivered, this time included;
// 1 if the broker does not count.
func Deliveries(msg *message.Message) int {
	n, err := strconv.Atoi(msg.Metadata.Get(MetaDelivery))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// RedeliveryDelay returns how long to wait before a nacked message is delivered again: 1 s
// after the first delivery, 5 s after the second one, then always 25 s. Each is multiplied by
// a random factor between 0.8 and 1.2, so that messages that were nacked together do not
// return together.
func RedeliveryDelay(deliveries int) time.Duration { return retry.Redelivery.After(deliveries) }
