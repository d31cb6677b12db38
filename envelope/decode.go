package envelope

import (
	"github.com/event-service-agent/timer-service/timer"
)

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
