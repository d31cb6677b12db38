package envelope

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// TenantOf returns the tenant that an invalid body names, for routing its dead
// letter: the one of the envelope, if it names a valid one and no second one, or
// else [timer.NoTenant]. In a CloudEvent that is the attribute tenantid, or
// without one the tenantId of its data. It reads as far as the body makes sense,
// at most [MaxBytes], and never into the payload of an envelope.
func TenantOf(body []byte) timer.TenantID {
	body = bytes.TrimPrefix(body[:min(len(body), MaxBytes)], byteOrderMark)
	s := scanners.Get().(*scanner)
	defer s.release()
	s.reset(body, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

	var envelope, attribute, data mention
	cloud := false
	s.members(func(key []byte) bool {
		switch string(key) {
		case "tenantId":
			return s.mention(&envelope)
		case "tenantid":
			return s.mention(&attribute)
		case "data":
			return s.members(func(key []byte) bool {
				if string(key) == "tenantId" {
					return s.mention(&data)
				}
				return s.json.SkipValue() == nil
			})
		case "specversion":
			cloud = true
		}
		return s.json.SkipValue() == nil
	})
	switch {
	case !cloud:
		return envelope.tenant()
	case attribute.times == 0 || attribute.null:
		return data.tenant()
	}
	return attribute.tenant()
}

// A mention is what a body says of its tenant under one key.
type mention struct {
	times int
	null  bool
	id    timer.TenantID
}

// tenant returns the tenant, if a valid one is mentioned, and no second one.
func (m mention) tenant() timer.TenantID {
	if m.times != 1 || m.id.Validate() != nil {
		return timer.NoTenant
	}
	return m.id
}

// mention notes the value of a key. It returns false if nothing more makes sense.
func (s *scanner) mention(m *mention) bool {
	m.times++
	kind := s.json.PeekKind()
	if kind != jsontext.KindString {
		m.null = kind == jsontext.KindNull
		return s.json.SkipValue() == nil
	}
	v, err := s.json.ReadValue()
	if err == nil {
		m.id = timer.TenantID(unquote(v))
	}
	return err == nil
}

// members calls visit with each key of an object, to read its value; of anything
// else it skips the value. It returns false if visit did, or if nothing more
// makes sense.
func (s *scanner) members(visit func(key []byte) bool) bool {
	if s.json.PeekKind() != jsontext.KindBeginObject {
		return s.json.SkipValue() == nil
	}
	if _, err := s.json.ReadToken(); err != nil {
		return false
	}
	for s.json.PeekKind() == jsontext.KindString {
		key, err := s.json.ReadValue()
		if err != nil || !visit(unquote(key)) {
			return false
		}
	}
	_, err := s.json.ReadToken()
	return err == nil
}
