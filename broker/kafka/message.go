package kafka

import (
	"cmp"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
)

// headerUUID holds the id of a message whose metadata do not name it. Users of
// watermill-kafka read and write it, too.
const headerUUID = "_watermill_message_uuid"

// marshal makes a record. Its key is [broker.Key], so that all messages of a timer are in
// one partition. The key of a dead letter is its own id, so that it can be removed.
func marshal(topic string, k broker.Kind, msg *message.Message) *kgo.Record {
	id := msg.UUID
	if id == "" {
		id = uuid.NewString()
	}
	r := &kgo.Record{
		Topic:     topic,
		Partition: unknownPartition,
		Value:     msg.Payload,
		Headers:   make([]kgo.RecordHeader, 0, len(msg.Metadata)+1),
	}
	if r.Value == nil {
		r.Value = []byte{} // a record without a value would be a tombstone
	}
	if k == broker.DeadLetter {
		r.Key = []byte(id)
	} else if key := broker.Key(msg); key != "" {
		r.Key = []byte(key)
	}
	for name, value := range msg.Metadata {
		if !reserved(name) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
	}
	if msg.Metadata[envelope.HeaderMessageID] != id {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerUUID, Value: []byte(id)})
	}
	return r
}

// unmarshal makes a message of any record. It never fails, since a malformed message must
// reach the handlers to become a dead letter.
func unmarshal(r *kgo.Record) *message.Message {
	msg := broker.Received(cmp.Or(header(r, headerUUID), header(r, envelope.HeaderMessageID)), r.Topic, r.Value)
	for _, h := range r.Headers {
		if _, twice := msg.Metadata[h.Key]; !twice && !reserved(h.Key) {
			msg.Metadata[h.Key] = string(h.Value)
		}
	}
	msg.Metadata[broker.MetaPosition] = position(r)
	return msg
}

// position returns the partition and offset of a record.
func position(r *kgo.Record) string {
	return strconv.Itoa(int(r.Partition)) + "/" + strconv.FormatInt(r.Offset, 10)
}

// header returns the first header with a name, or "" if there is none.
func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// reserved reports whether a header is not metadata, but a header of this driver.
func reserved(name string) bool {
	return name == headerUUID || broker.IsMeta(name)
}

// headerBytes is about how much memory a header takes in addition to its text.
const headerBytes = 64

// weight returns about how many bytes of memory a record needs.
func weight(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += headerBytes + len(h.Key) + len(h.Value)
	}
	return n
}
