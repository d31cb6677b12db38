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
// its headers if they name both, else that of its body, so that a producer
// which sends no headers keeps the order of its keys too. It returns "" if
// neither names a key; such messages have no order.
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
}

var lookers = sync.Pool{New: func() any { return new(looker) }}

// reset makes l ready for a body. What a body holds twice or in broken UTF-8 is
// for others to refuse.
func (l *looker) reset(body []byte) {
	l.reader = *bytes.NewBuffer(body)
	l.json.Reset(&l.reader, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// keyIn returns what a body says of its key. It stops as soon as the key is
// complete, or at the first thing that is odd.
func keyIn(body []byte) (key timer.Key) {
	if len(body) > envelope.MaxBytes {
		return key
	}
	l := lookers.Get().(*looker)
	defer func() {
		l.reset(nil) // let go of the body
		lookers.Put(l)
	}()
	l.reset(body)
	if l.json.PeekKind() != jsontext.KindBeginObject {
		return key
	}
	l.object(&key, false)
	return key
}

// object reads an object, the envelope or its payload. It returns false if
// there is nothing more to find.
func (l *looker) object(key *timer.Key, payload bool) bool {
	if _, err := l.json.ReadToken(); err != nil {
		return false
	}
	for l.json.PeekKind() == jsontext.KindString {
		name, err := l.json.ReadToken()
		if err != nil || !l.value(key, name.String(), payload) || complete(*key) {
			return false
		}
	}
	_, err := l.json.ReadToken()
	return err == nil
}

// value reads the value of a name. It returns false if there is nothing more to
// find.
func (l *looker) value(key *timer.Key, name string, payload bool) bool {
	kind := l.json.PeekKind()
	switch {
	case name == "payload" && !payload && kind == jsontext.KindBeginObject:
		return l.object(key, true)
	case name == "tenantId" && !payload && kind == jsontext.KindString:
		v, err := l.json.ReadToken()
		if err == nil {
			key.TenantID = timer.TenantID(v.String())
		}
		return err == nil
	case (name == "aggregateId" && !payload || name == "serviceCallId" && payload) && kind == jsontext.KindString:
		v, err := l.json.ReadToken()
		if err == nil {
			key.ServiceCallID = timer.ServiceCallID(v.String())
		}
		return err == nil
	}
	return l.json.SkipValue() == nil
}
