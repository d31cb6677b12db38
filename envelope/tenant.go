package envelope

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// TenantOf returns the tenant that an invalid body names, for routing its dead
// letter: the one of the envelope, if it names a valid one and no second one, or
// else [timer.NoTenant]. It reads as far as the body makes sense, at most
// [MaxBytes], and never into the payload.
func TenantOf(body []byte) timer.TenantID {
	body = bytes.TrimPrefix(body[:min(len(body), MaxBytes)], byteOrderMark)
	s := scanners.Get().(*scanner)
	defer s.release()
	s.reset(body, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if s.json.PeekKind() != jsontext.KindBeginObject {
		return timer.NoTenant
	}
	if _, err := s.json.ReadToken(); err != nil {
		return timer.NoTenant
	}
	found := timer.NoTenant
	for named := false; s.json.PeekKind() == jsontext.KindString; {
		key, err := s.json.ReadValue()
		if err != nil {
			break
		}
		if string(unquote(key)) != "tenantId" {
			if s.json.SkipValue() != nil {
				break
			}
			continue
		}
		if named {
			return timer.NoTenant
		}
		named = true
		if s.json.PeekKind() != jsontext.KindString {
			return timer.NoTenant
		}
		value, err := s.json.ReadValue()
		if err != nil {
			break
		}
		if tenant := timer.TenantID(unquote(value)); tenant.Validate() == nil {
			found = tenant
		}
	}
	return found
}
