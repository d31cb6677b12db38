package envelope

import (
	"strconv"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// maxTimestampMS is the greatest integer that every JSON implementation reads
// exactly.
const maxTimestampMS = 1<<53 - 1

// Decode reads one envelope, strictly: at most [MaxBytes] of valid UTF-8, one
// JSON object and nothing after it, nested no deeper than [MaxDepth], no key
// twice in an object. Keys count in any order and in their exact case; unknown
// ones are ignored. A field that may be absent must still not be null. Errors are
// [timer.InvalidError]s that name the field and the remedy.
//
// A message of another type is no error, see [Message], if it is such an object
// and its type is a string that is not empty.
//
// Nothing in the message refers to the body.
func Decode(body []byte) (Message, error) {
	s := scanners.Get().(*scanner)
	defer s.release()
	if err := s.scan(body); err != nil {
		return Message{}, err
	}
	return s.fields.message()
}

func (f *fields) message() (m Message, err error) {
	kind, err := text("type", f.kind)
	if err != nil {
		return Message{}, err
	}
	switch string(kind) {
	case TypeScheduleTimer:
		m.Type = TypeScheduleTimer
		err = f.schedule(&m)
	case TypeCancelTimer:
		m.Type = TypeCancelTimer
		err = f.cancel(&m)
	case TypeDueTimeReached:
		m.Type = TypeDueTimeReached
		err = f.reached(&m)
	case "":
		err = timer.Invalid(timer.ReasonMissingField, "type is empty; name the type of the message")
	default:
		m.Type = string(kind)
		f.other(&m)
	}
	if err != nil {
		return Message{}, err
	}
	return m, nil
}

func (f *fields) schedule(m *Message) error {
	key, err := f.common(m)
	if err != nil {
		return err
	}
	dueAt, err := instant("payload.dueAt", f.inner.dueAt)
	if err != nil {
		return err
	}
	m.Payload = timer.ScheduleTimer{
		Key:           key,
		Version:       timer.Version{TimestampMS: m.TimestampMS, CommandID: m.ID},
		DueAt:         dueAt,
		CorrelationID: m.CorrelationID,
	}
	return nil
}

func (f *fields) cancel(m *Message) error {
	key, err := f.common(m)
	if err != nil {
		return err
	}
	m.Payload = timer.CancelTimer{
		Key:           key,
		Version:       timer.Version{TimestampMS: m.TimestampMS, CommandID: m.ID},
		CorrelationID: m.CorrelationID,
	}
	return nil
}

func (f *fields) reached(m *Message) error {
	if f.aggregateID == nil {
		return mistaken("aggregateId", f.aggregateID, "the service call id")
	}
	key, err := f.common(m)
	if err != nil {
		return err
	}
	dueAt, err := instant("payload.dueAt", f.inner.dueAt)
	if err != nil {
		return err
	}
	reachedAt, err := instant("payload.reachedAt", f.inner.reachedAt)
	if err != nil {
		return err
	}
	m.Payload = timer.DueTimeReached{
		Key:           key,
		ID:            m.ID,
		DueAt:         dueAt,
		ReachedAt:     reachedAt,
		CorrelationID: m.CorrelationID,
	}
	return nil
}

// other keeps what is well formed of a message that is none of ours.
func (f *fields) other(m *Message) {
	if id, err := identifier("id", f.id); err == nil {
		m.ID = id
	}
	if tenant, err := f.tenant(); err == nil {
		m.TenantID = tenant
	}
}

// common checks what all messages of ours have in common, and returns the key.
func (f *fields) common(m *Message) (key timer.Key, err error) {
	if m.ID, err = identifier("id", f.id); err != nil {
		return key, err
	}
	if m.TenantID, err = f.tenant(); err != nil {
		return key, err
	}
	if m.TimestampMS, err = milliseconds("timestampMs", f.timestampMS); err != nil {
		return key, err
	}
	if m.CorrelationID, err = optional("correlationId", f.correlationID); err != nil {
		return key, err
	}
	if m.CausationID, err = optional("causationId", f.causationID); err != nil {
		return key, err
	}
	if key, err = f.key(m.TenantID); err != nil {
		return key, err
	}
	m.AggregateID, err = f.aggregate(key.ServiceCallID)
	return key, err
}

func (f *fields) tenant() (timer.TenantID, error) {
	id, err := text("tenantId", f.tenantID)
	if err != nil {
		return "", err
	}
	tenant := timer.TenantID(id)
	if err := tenant.Validate(); err != nil {
		return "", err
	}
	return tenant, nil
}

// key returns the key that the payload names, which must be one of the tenant.
func (f *fields) key(tenant timer.TenantID) (key timer.Key, err error) {
	if len(f.payload) == 0 || f.payload[0] != '{' {
		return key, mistaken("payload", f.payload, "an object")
	}
	id, err := text("payload.tenantId", f.inner.tenantID)
	if err != nil {
		return key, err
	}
	if string(id) != string(tenant) {
		return key, timer.Invalid(timer.ReasonTenantMismatch, "payload.tenantId %s is not tenantId %s; name the same tenant in both",
			timer.Quote(string(id)), timer.Quote(string(tenant)))
	}
	if id, err = text("payload.serviceCallId", f.inner.serviceCallID); err != nil {
		return key, err
	}
	key = timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(id)}
	return key, key.ServiceCallID.Validate()
}

// aggregate returns the aggregate id, which may be absent but is nothing other
// than the service call id.
func (f *fields) aggregate(call timer.ServiceCallID) (string, error) {
	if f.aggregateID == nil {
		return "", nil
	}
	id, err := optionalText("aggregateId", f.aggregateID)
	if err != nil {
		return "", err
	}
	if string(id) != string(call) {
		return "", timer.Invalid(timer.ReasonKeyMismatch, "aggregateId %s is not payload.serviceCallId %s; name the same service call in both or leave aggregateId out",
			timer.Quote(string(id)), timer.Quote(string(call)))
	}
	return string(call), nil
}

// text returns what the string says that a field must hold.
func text(field string, v value) ([]byte, error) {
	if len(v) == 0 || v[0] != '"' {
		return nil, mistaken(field, v, "a string")
	}
	return unquote(v), nil
}

// optionalText returns what the string says that a field holds, since it is
// there.
func optionalText(field string, v value) ([]byte, error) {
	if v[0] == 'n' {
		return nil, timer.Invalid(timer.ReasonMissingField, "%s is null; write a string or leave the field out", field)
	}
	return text(field, v)
}

func identifier(field string, v value) (string, error) {
	b, err := text(field, v)
	if err != nil {
		return "", err
	}
	id := string(b)
	if err := timer.ValidateID(field, id); err != nil {
		return "", err
	}
	return id, nil
}

// optional returns an identifier, or "" if it is absent.
func optional(field string, v value) (string, error) {
	if v == nil {
		return "", nil
	}
	if _, err := optionalText(field, v); err != nil {
		return "", err
	}
	return identifier(field, v)
}

func instant(field string, v value) (time.Time, error) {
	s, err := text(field, v)
	if err != nil {
		return time.Time{}, err
	}
	return parseTime(field, s)
}

// milliseconds returns the integer that a field must hold, written in digits
// alone.
func milliseconds(field string, v value) (int64, error) {
	if len(v) == 0 || name(v[0]) != aNumber {
		return 0, mistaken(field, v, "an integer")
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil || n > maxTimestampMS {
		return 0, timer.Invalid(timer.ReasonBadField, "%s %s is no integer from 0 to 2^53-1; write Unix milliseconds in digits alone", field, timer.Quote(string(v)))
	}
	return int64(n), nil
}

// mistaken returns the error for a field that does not hold what is wanted.
func mistaken(field string, v value, wanted string) error {
	switch {
	case len(v) == 0:
		return timer.Invalid(timer.ReasonMissingField, "%s is missing; it must be %s", field, wanted)
	case v[0] == 'n':
		return timer.Invalid(timer.ReasonMissingField, "%s is null; it must be %s", field, wanted)
	}
	return timer.Invalid(timer.ReasonBadField, "%s is %s; it must be %s", field, name(v[0]), wanted)
}

const aNumber = "a number"

// name returns what kind of JSON value begins with a byte.
func name(first byte) string {
	switch first {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return aNumber
}
