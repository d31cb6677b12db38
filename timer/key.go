package timer

import (
	"cmp"
	"fmt"
	"strings"
)

// Limits of identifiers, in bytes.
const (
	maxTenantIDBytes      = 64
	maxServiceCallIDBytes = 128
	maxMessageIDBytes     = 128
)

// A TenantID names the owner of timers. It matches
// ^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$, so it is safe as a token of a subject, a
// topic or a queue name on every broker.
type TenantID string

// NoTenant is used for a message without a valid tenant. It is no valid
// [TenantID], so it is not the name of one.
const NoTenant TenantID = "_"

// Validate returns an [InvalidError] unless t is well formed.
func (t TenantID) Validate() error {
	return validateName("tenantId", string(t), maxTenantIDBytes, "_-", "_-", "_ -, or begins with _ or -")
}

// A ServiceCallID names a service call of one tenant. It matches
// ^[A-Za-z0-9_.:-]{1,128}$ and is neither . nor .., which URLs give another meaning. It is a
// key or a header on the wire, never a token of a subject.
type ServiceCallID string

// Validate returns an [InvalidError] unless s is well formed.
func (s ServiceCallID) Validate() error {
	if s == "." || s == ".." {
		return Invalid(ReasonBadField, "serviceCallId %q is none: it means a folder in the path of a URL", s)
	}
	return validateName("serviceCallId", string(s), maxServiceCallIDBytes, "_.:-", "", "_ . : -")
}

// validateName returns an [InvalidError] unless a name is not empty, has at most limit
// bytes, consists of ASCII letters, digits and the extra bytes, and begins with none of
// some. Outside says the last two in the error.
func validateName(field, name string, limit int, extra, notFirst, outside string) error {
	switch {
	case name == "":
		return Invalid(ReasonMissingField, "%s is empty", field)
	case len(name) > limit:
		return Invalid(ReasonBadField, "%s is longer than %d characters", field, limit)
	case strings.IndexByte(notFirst, name[0]) >= 0 || !only(name, extra):
		return Invalid(ReasonBadField, "%s %s has a character outside A-Z a-z 0-9 %s", field, Quote(name), outside)
	}
	return nil
}

// A Key identifies a timer.
type Key struct {
	TenantID      TenantID
	ServiceCallID ServiceCallID
}

// String returns "tenantId.serviceCallId".
func (k Key) String() string { return string(k.TenantID) + "." + string(k.ServiceCallID) }

// Compare orders keys byte by byte, the tenant first: -1 if k is before other, 0
// if they are equal, 1 if it is after.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.TenantID, other.TenantID), cmp.Compare(k.ServiceCallID, other.ServiceCallID))
}

// Validate returns an [InvalidError] unless both parts are well formed.
func (k Key) Validate() error {
	return cmp.Or(k.TenantID.Validate(), k.ServiceCallID.Validate())
}

// A Version orders the commands of a key: by the producer's time first, then
// by id. The greater one is the newer one.
type Version struct {
	TimestampMS int64  // producer's time, Unix milliseconds
	CommandID   string // id of the command; 1 to 128 visible ASCII characters
}

// Compare returns -1 if v is older than o, 0 if they are the same, +1 if v is newer.
func (v Version) Compare(o Version) int {
	return cmp.Or(cmp.Compare(v.TimestampMS, o.TimestampMS), strings.Compare(v.CommandID, o.CommandID))
}

// Validate returns an [InvalidError] unless the id is well formed and the time
// is one that all JSON implementations read exactly: from 0 to 2^53-1.
func (v Version) Validate() error {
	if v.TimestampMS < 0 || v.TimestampMS > 1<<53-1 {
		return Invalid(ReasonBadField, "timestampMs %d is outside 0 to 2^53-1", v.TimestampMS)
	}
	return ValidateID("id", v.CommandID)
}

// ValidateID returns an [InvalidError] unless id has 1 to 128 visible ASCII
// characters. Field names it in the error.
func ValidateID(field, id string) error {
	switch {
	case id == "":
		return Invalid(ReasonMissingField, "%s is empty", field)
	case len(id) > maxMessageIDBytes:
		return Invalid(ReasonBadField, "%s is longer than %d characters", field, maxMessageIDBytes)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return Invalid(ReasonBadField, "%s %s has a character that is not visible ASCII", field, Quote(id))
		}
	}
	return nil
}

// validateOptional is [ValidateID] of an id that may be empty.
func validateOptional(field, id string) error {
	if id == "" {
		return nil
	}
	return ValidateID(field, id)
}

// Quote returns s quoted, in ASCII, and cut to a length for log lines and headers.
func Quote(s string) string {
	const limit = 80
	if len(s) <= limit {
		return fmt.Sprintf("%+q", s)
	}
	return fmt.Sprintf("%+q...", s[:limit])
}

// only reports whether s consists of ASCII letters, digits and the extra bytes.
func only(s, extra string) bool {
	for i := range len(s) {
		b := s[i]
		if 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' {
			continue
		}
		if strings.IndexByte(extra, b) < 0 {
			return false
		}
	}
	return true
}
