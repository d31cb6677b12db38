package envelope

import (
	"github.com/event-service-agent/timer-service/timer"
)

// Decode reads one message, an envelope or, if it has the key specversion, a
// CloudEvent 1.0 in structured JSON, strictly: at most [MaxBytes] of valid UTF-8, one
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

// names are those of the fields, for errors.
type names struct {
	tenant, aggregate, correlation, causation, payload, payloadTenant, payloadCall, dueAt, reachedAt string
}

var (
	inEnvelope = names{
		"tenantId", "aggregateId", "correlationId", "causationId",
		"payload", "payload.tenantId", "payload.serviceCallId", "payload.dueAt", "payload.reachedAt",
	}
	inCloudEvent = names{
		"tenantid", "subject", "correlationid", "causationid",
		"data", "data.tenantId", "data.serviceCallId", "data.dueAt", "data.reachedAt",
	}
)

func (f *fields) names() *names {
	if f.cloud != nil {
		return &inCloudEvent
	}
	return &inEnvelope
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
	dueAt, err := instant(f.names().dueAt, f.inner.dueAt)
	if err != nil {
		return err
	}
	m.Payload = timer.ScheduleTimer{
		Key:           key,
		Version:       timer.Version{TimestampMS: m.TimestampMS, CommandID: m.ID},
		DueAt:         dueAt,
		CorrelationID: m.CorrelationID,
		Trace:         f.trace(),
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
		return mistaken(f.names().aggregate, f.aggregateID, "the service call id")
	}
	key, err := f.common(m)
	if err != nil {
		return err
	}
	dueAt, err := instant(f.names().dueAt, f.inner.dueAt)
	if err != nil {
		return err
	}
	reachedAt, err := instant(f.names().reachedAt, f.inner.reachedAt)
	if err != nil {
		return err
	}
	m.Payload = timer.DueTimeReached{
		Key:           key,
		ID:            m.ID,
		DueAt:         dueAt,
		ReachedAt:     reachedAt,
		CorrelationID: m.CorrelationID,
		Trace:         f.trace(),
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
	n := f.names()
	if f.cloud != nil {
		if err := f.cloud.check(); err != nil {
			return key, err
		}
	}
	if m.ID, err = identifier("id", f.id); err != nil {
		return key, err
	}
	if m.TenantID, err = f.tenant(); err != nil {
		return key, err
	}
	if m.TimestampMS, err = f.timestamp(); err != nil {
		return key, err
	}
	if m.CorrelationID, err = optional(n.correlation, f.correlationID); err != nil {
		return key, err
	}
	if m.CausationID, err = optional(n.causation, f.causationID); err != nil {
		return key, err
	}
	if key, err = f.key(m.TenantID); err != nil {
		return key, err
	}
	m.AggregateID, err = f.aggregate(key.ServiceCallID)
	return key, err
}

// timestamp returns when the producer made the message. As that of an envelope
// is, the time of a CloudEvent is that of a clock: a rest finer than a
// millisecond is cut off.
func (f *fields) timestamp() (int64, error) {
	if f.cloud == nil {
		return milliseconds("timestampMs", f.timestampMS)
	}
	s, err := text("time", f.cloud.time)
	if err != nil {
		return 0, err
	}
	t, err := parseTime("time", s, down)
	return t.UnixMilli(), err
}

// tenant returns the tenant. A CloudEvent may leave it to its data.
func (f *fields) tenant() (timer.TenantID, error) {
	field, v := f.names().tenant, f.tenantID
	if f.cloud != nil && v == nil {
		if len(f.payload) == 0 || f.payload[0] != '{' {
			return "", mistaken("data", f.payload, "an object")
		}
		field, v = "data.tenantId", f.inner.tenantID
	}
	id, err := text(field, v)
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
	n := f.names()
	if len(f.payload) == 0 || f.payload[0] != '{' {
		return key, mistaken(n.payload, f.payload, "an object")
	}
	id, err := text(n.payloadTenant, f.inner.tenantID)
	if err != nil {
		return key, err
	}
	if string(id) != string(tenant) {
		return key, timer.Invalid(timer.ReasonTenantMismatch, "%s %s is not %s %s; name the same tenant in both",
			n.payloadTenant, timer.Quote(string(id)), n.tenant, timer.Quote(string(tenant)))
	}
	if id, err = text(n.payloadCall, f.inner.serviceCallID); err != nil {
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
	n := f.names()
	id, err := optionalText(n.aggregate, f.aggregateID)
	if err != nil {
		return "", err
	}
	if string(id) != string(call) {
		return "", timer.Invalid(timer.ReasonKeyMismatch, "%s %s is not %s %s; name the same service call in both or leave %s out",
			n.aggregate, timer.Quote(string(id)), n.payloadCall, timer.Quote(string(call)), n.aggregate)
	}
	return string(call), nil
}
