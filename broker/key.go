package broker

import (
	"bytes"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Key returns the ordering key of a message, "tenantId.serviceCallId": that of
// its headers if they name both, else that of its body, an envelope or a
// CloudEvent, so that a producer which sends no headers keeps the order of its
// keys too. It returns "" if neither names a key; such messages have no order.
//
// The body is looked at only as far as needed and is not validated: a message
// with a key may still be invalid.
func Key(msg *message.Message) string {
	key := timer.Key{
		TenantID:      timer.TenantID(msg.Metadata.Get(envelope.HeaderTenantID)),
		ServiceCallID: timer.ServiceCallID(msg.Metadata.Get(envelope.HeaderServiceCallID)),
	}
	if !complete(key) {
		key = keyIn(msg.Payload)
	}
	if !complete(key) {
		return ""
	}
	return key.String()
}

func complete(key timer.Key) bool { return key.TenantID != "" && key.ServiceCallID != "" }

// A looker finds the key in one body at a time. Lookers are reused, since they
// are large.
type looker struct {
	json   jsontext.Decoder
	reader bytes.Buffer
	found
}

// What was found in a body. No valid message names a key of an envelope and is
// a CloudEvent.
type found struct {
	envelope timer.Key // what it says if it is an envelope
	cloud    timer.Key // and what if it is a CloudEvent
	isCloud  bool
}

// key returns the key, as far as it was found.
func (f *found) key() timer.Key {
	if f.isCloud {
		return f.cloud
	}
	return f.envelope
}

// enough reports whether whatever is valid has the key that was found.
func (f *found) enough() bool { return complete(f.envelope) || f.isCloud && complete(f.cloud) }

var lookers = sync.Pool{New: func() any { return new(looker) }}

// reset makes l ready for a body. What a body holds twice or in broken UTF-8 is
// for others to refuse.
func (l *looker) reset(body []byte) {
	l.found = found{}
	l.reader = *bytes.NewBuffer(body)
	l.json.Reset(&l.reader, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// keyIn returns what a body says of its key. It stops as soon as the key is
// complete, or at the first thing that is odd.
func keyIn(body []byte) timer.Key {
	if len(body) > envelope.MaxBytes {
		return timer.Key{}
	}
	l := lookers.Get().(*looker)
	defer func() {
		l.reset(nil) // let go of the body
		lookers.Put(l)
	}()
	l.reset(body)
	if l.json.PeekKind() != jsontext.KindBeginObject {
		return timer.Key{}
	}
	l.object((*looker).member)
	return l.key()
}

// object reads an object, with member for each value. It returns false if there
// is nothing more to find.
func (l *looker) object(member func(*looker, []byte) bool) bool {
	if _, err := l.json.ReadToken(); err != nil {
		return false
	}
	for l.json.PeekKind() == jsontext.KindString {
		name, err := l.json.ReadValue()
		if err != nil || !member(l, unquote(name)) || l.enough() {
			return false
		}
	}
	_, err := l.json.ReadToken()
	return err == nil
}

// member reads the value of a name of the body. As the others, it returns false
// if there is nothing more to find.
func (l *looker) member(name []byte) bool {
	switch string(name) {
	case "tenantId":
		return text(l, &l.envelope.TenantID)
	case "aggregateId":
		return text(l, &l.envelope.ServiceCallID)
	case "payload":
		return l.inner((*looker).payload)
	case "specversion":
		l.isCloud = true
	case "tenantid":
		return text(l, &l.cloud.TenantID)
	case "subject":
		return text(l, &l.cloud.ServiceCallID)
	case "data":
		return l.inner((*looker).data)
	}
	return l.json.SkipValue() == nil
}

// inner reads an object within the body, or skips what is none.
func (l *looker) inner(member func(*looker, []byte) bool) bool {
	if l.json.PeekKind() != jsontext.KindBeginObject {
		return l.json.SkipValue() == nil
	}
	return l.object(member)
}

// payload reads the value of a name in the payload of an envelope.
func (l *looker) payload(name []byte) bool {
	if string(name) == "serviceCallId" {
		return text(l, &l.envelope.ServiceCallID)
	}
	return l.json.SkipValue() == nil
}

// data reads the value of a name in the data of a CloudEvent.
func (l *looker) data(name []byte) bool {
	switch string(name) {
	case "tenantId":
		return text(l, &l.cloud.TenantID)
	case "serviceCallId":
		return text(l, &l.cloud.ServiceCallID)
	}
	return l.json.SkipValue() == nil
}

// text reads a string, or skips what is none.
func text[S ~string](l *looker, to *S) bool {
	if l.json.PeekKind() != jsontext.KindString {
		return l.json.SkipValue() == nil
	}
	v, err := l.json.ReadValue()
	if err == nil {
		*to = S(unquote(v))
	}
	return err == nil
}

// unquote returns what a JSON string says. It refers to the string if nothing in
// it is escaped.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	plain, _ := jsontext.AppendUnquote(nil, quoted) // the decoder has found it well formed
	return plain
}
