package envelope

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// Decode reads one message, an envelope or, if it has the key specversion, a
// CloudEvent 1.0 in structured JSON, strictly: at most [MaxBytes] of valid UTF-8, one
// JSON object and nothing after it, nested no deeper than [MaxDepth], no key
// twice in an object. Keys count in any order and in their exact case; unknown
// ones are ignored. A null in an optional field means that the field is absent; as data it
// is a value. Errors are [timer.InvalidError]s that name the field and the remedy.
//
// A message of an unknown type is no error if it is such an object and its type is a string
// that is not empty, see [Message].
//
// The result shares no memory with the body.
func Decode(body []byte) (Message, error) {
	return DecodeWith(body, func(string) string { return "" })
}

// DecodeWith is [Decode] of a message with headers: get returns a header by its name, or "".
// A correlation id or a trace that the body lacks is taken from the headers.
func DecodeWith(body []byte, get func(name string) string) (Message, error) {
	d := decoders.Get().(*decoder)
	defer d.release()
	d.header, d.names = get, &inEnvelope
	if err := d.read(body); err != nil {
		return Message{}, err
	}
	if d.SpecVersion != nil {
		d.names = &inCloudEvent
		d.fromCloudEvent()
	}
	m := d.message()
	switch {
	case d.err != nil:
		return Message{}, d.err
	case m.Payload == nil:
		from := d.origin()
		m.ID, m.TenantID = from.ID, from.TenantID
	}
	return m, nil
}

// A decoder turns the fields of one body into a message. Decoders are reused, which takes a
// fiftieth of the CPU time of a command (BenchmarkIntake, 2026-11).
type decoder struct {
	fields
	names  *fieldNames
	header func(name string) string
	err    error // the first mistake; values read after it are meaningless
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// release gives d back, without a reference to the body.
func (d *decoder) release() {
	*d = decoder{}
	decoders.Put(d)
}

// fail keeps err if it is the first one.
func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// fieldNames are the names of fields, for errors.
type fieldNames struct {
	tenant, aggregate, correlation, causation                            string
	payload, payloadTenant, payloadCall, payloadTimers, dueAt, reachedAt string
	expiresAt, expiredAt, data                                           string
}

var (
	inEnvelope = fieldNames{
		"tenantId", "aggregateId", "correlationId", "causationId",
		"payload", "payload.tenantId", "payload.serviceCallId", "payload.timers", "payload.dueAt", "payload.reachedAt",
		"payload.expiresAt", "payload.expiredAt", "payload.data",
	}
	inCloudEvent = fieldNames{
		"tenantid", "subject", "correlationid", "causationid",
		"data", "data.tenantId", "data.serviceCallId", "data.timers", "data.dueAt", "data.reachedAt",
		"data.expiresAt", "data.expiredAt", "data.data",
	}
)

func (d *decoder) message() (m Message) {
	m.Type = string(d.text("type", d.Type))
	switch m.Type {
	case TypeScheduleTimer:
		m.Payload = d.schedule(&m)
	case TypeScheduleTimers:
		m.Payload = d.scheduleMany(&m)
	case TypeCancelTimer:
		m.Payload = timer.CancelTimer{Key: d.key(&m), Version: version(&m), CorrelationID: m.CorrelationID, Trace: d.trace()}
	case TypeCancelTimers:
		m.Payload = d.cancelMany(&m)
	case TypeRescheduleTimers:
		c := timer.SelectionCommand{CancelTimers: d.cancelMany(&m), Move: timer.Move{To: d.instant(d.names.dueAt, d.Payload.DueAt)}}
		m.Payload = c.Reschedule()
	case TypeDueTimeReached:
		m.Payload = d.event(&m, timer.Reached, d.names.reachedAt, d.Payload.ReachedAt)
	case TypeTimerExpired:
		m.Payload = d.expired(&m)
	case string(timer.TimerScheduled), string(timer.TimerCanceled), string(timer.TimerIgnored), string(timer.TimerRejected):
		m.Payload = d.receipt(&m)
	case "":
		d.fail(timer.Invalid(timer.ReasonMissingField, "type is empty; name the type of the message"))
	}
	return m
}

func (d *decoder) schedule(m *Message) timer.ScheduleTimer {
	c := timer.ScheduleTimer{
		Key:           d.key(m),
		Version:       version(m),
		DueAt:         d.instant(d.names.dueAt, d.Payload.DueAt),
		CorrelationID: m.CorrelationID,
		Trace:         d.trace(),
	}
	c.ExpiresAt = d.expiry(d.names.expiresAt, d.Payload.ExpiresAt, c.DueAt)
	c.Data = d.data(d.names.data, d.Payload.Data)
	return c
}

// expiry returns when a timer with a due time expires, or the zero time if the field is
// absent.
func (d *decoder) expiry(field string, v value, dueAt time.Time) time.Time {
	if absent(v) {
		return time.Time{}
	}
	t := d.instant(field, v)
	d.fail(timer.ValidateExpiresAt(field, t, dueAt))
	return t
}

func (d *decoder) scheduleMany(m *Message) timer.ScheduleTimers {
	d.many(m)
	c := timer.ScheduleTimers{TenantID: m.TenantID, Version: version(m)}
	var list []value
	if v := d.Payload.Timers; absent(v) || json.Unmarshal(v, &list) != nil {
		d.fail(mistaken(d.names.payloadTimers, v, "an array"))
	}
	if d.err != nil {
		return c
	}
	command := timer.ScheduleTimer{
		Key:           timer.Key{TenantID: m.TenantID},
		Version:       c.Version,
		CorrelationID: m.CorrelationID,
		Trace:         d.trace(),
	}
	list = list[:min(len(list), timer.MaxScheduleTimers+1)]
	c.Commands = make([]timer.ScheduleTimer, 0, len(list))
	for _, item := range list {
		d.timer(item, &command)
		if d.err != nil {
			break
		}
		c.Commands = append(c.Commands, command)
	}
	// A command before the one that could not be read may be wrong, too, and counts first.
	unread := d.err
	if d.err = nil; unread == nil || len(c.Commands) > 0 {
		d.err = c.Validate()
	}
	if invalid, ok := errors.AsType[*timer.InvalidError](unread); ok {
		d.fail(timer.Invalid(invalid.Reason, "timers[%d]%s", len(c.Commands), invalid.Detail))
	}
	return c
}

// cancelMany reads a CancelTimers, or the fields that a RescheduleTimers has in common with it.
func (d *decoder) cancelMany(m *Message) timer.CancelTimers {
	d.many(m)
	c := timer.CancelTimers{TenantID: m.TenantID, Version: version(m), CorrelationID: m.CorrelationID, Trace: d.trace()}
	in := d.names.payload + "."
	if v := d.Payload.ServiceCallIDs; !absent(v) && json.Unmarshal(v, &c.Of.Calls) != nil {
		d.fail(mistaken(in+"serviceCallIds", v, "an array of strings"))
	}
	if v := d.Payload.Prefix; !absent(v) {
		c.Of.Prefix = string(d.text(in+"prefix", v))
	}
	c.Of.CorrelationID = d.optional(in+"correlationId", d.Payload.CorrelationID)
	given := 0 // fields, which may be empty
	for _, v := range [...]value{d.Payload.ServiceCallIDs, d.Payload.Prefix, d.Payload.CorrelationID} {
		if !absent(v) {
			given++
		}
	}
	if given > 1 {
		c.Of = timer.Selection{}
	}
	d.fail(c.Of.Validate(in))
	return c
}

// many sets the fields of m that messages about many timers have.
func (d *decoder) many(m *Message) {
	d.common(m)
	if !absent(d.AggregateID) {
		d.fail(timer.Invalid(timer.ReasonKeyMismatch, "%s is not allowed in %s, which has many service calls; leave it out", d.names.aggregate, m.Type))
	}
}

// timer reads service call, times and data of a command from an item of a list.
func (d *decoder) timer(v value, c *timer.ScheduleTimer) {
	var item payload
	d.fail(json.Unmarshal(v, &item))
	if !item.isObject() {
		d.fail(mistaken("", v, "an object"))
	}
	c.ServiceCallID = timer.ServiceCallID(d.text(".serviceCallId", item.ServiceCallID))
	c.DueAt = d.instant(".dueAt", item.DueAt)
	c.ExpiresAt = d.expiry(".expiresAt", item.ExpiresAt, c.DueAt)
	c.Data = d.data(".data", item.Data)
}

func (d *decoder) expired(m *Message) timer.TimerExpired {
	if v := d.Payload.ExpiresAt; absent(v) {
		d.fail(mistaken(d.names.expiresAt, v, "a string"))
	}
	return d.event(m, timer.Expired, d.names.expiredAt, d.Payload.ExpiredAt).TimerExpired()
}

// event reads the event of a timer. The field has the time when the timer came to the state.
func (d *decoder) event(m *Message, state timer.State, field string, at value) timer.DueTimeReached {
	if absent(d.AggregateID) {
		d.fail(mistaken(d.names.aggregate, nil, "the service call id"))
	}
	e := timer.DueTimeReached{
		Key:           d.key(m),
		ID:            m.ID,
		DueAt:         d.instant(d.names.dueAt, d.Payload.DueAt),
		ReachedAt:     d.instant(field, at),
		CorrelationID: m.CorrelationID,
		Trace:         d.trace(),
	}
	e.ExpiresAt = d.expiry(d.names.expiresAt, d.Payload.ExpiresAt, e.DueAt)
	e.Data = d.data(d.names.data, d.Payload.Data)
	if e.State() != state {
		d.fail(timer.Invalid(timer.ReasonBadTime, "%s and %s do not say that the timer is %s; a timer expires at %[2]s or later, and is reached before", field, d.names.expiresAt, state))
	}
	return e
}

// key sets the fields of m that all messages about one timer have, and returns the timer's
// key.
func (d *decoder) key(m *Message) timer.Key {
	d.common(m)
	key := timer.Key{TenantID: m.TenantID, ServiceCallID: timer.ServiceCallID(d.text(d.names.payloadCall, d.Payload.ServiceCallID))}
	d.fail(key.ServiceCallID.Validate())
	if absent(d.AggregateID) {
		return key
	}
	id := d.text(d.names.aggregate, d.AggregateID)
	if string(id) != string(key.ServiceCallID) {
		d.fail(timer.Invalid(timer.ReasonKeyMismatch, "%s %s is not %s %s; name the same service call in both or leave %s out",
			d.names.aggregate, timer.Quote(string(id)), d.names.payloadCall, timer.Quote(string(key.ServiceCallID)), d.names.aggregate))
	}
	m.AggregateID = string(key.ServiceCallID)
	return key
}

// version returns the version of a command.
func version(m *Message) timer.Version {
	return timer.Version{TimestampMS: m.TimestampMS, CommandID: m.ID}
}

// common sets the fields of m that all our messages have.
func (d *decoder) common(m *Message) {
	if d.SpecVersion != nil {
		d.check()
	}
	m.ID = d.identifier("id", d.ID)
	m.TenantID = d.tenant()
	m.TimestampMS = d.timestamp()
	if m.CorrelationID = d.optional(d.names.correlation, d.CorrelationID); m.CorrelationID == "" {
		m.CorrelationID = CorrelationFrom(d.header)
	}
	m.CausationID = d.optional(d.names.causation, d.CausationID)
	if !d.Payload.isObject() {
		d.fail(mistaken(d.names.payload, d.Payload.whole, "an object"))
	}
	if inner := d.text(d.names.payloadTenant, d.Payload.TenantID); string(inner) != string(m.TenantID) {
		d.fail(timer.Invalid(timer.ReasonTenantMismatch, "%s %s is not %s %s; name the same tenant in both",
			d.names.payloadTenant, timer.Quote(string(inner)), d.names.tenant, timer.Quote(string(m.TenantID))))
	}
}

// timestamp returns when the producer made the message. The time of a CloudEvent is rounded
// down to the millisecond, because it comes from a clock.
func (d *decoder) timestamp() int64 {
	if d.SpecVersion == nil {
		return d.milliseconds("timestampMs", d.TimestampMS)
	}
	t, err := parseTime("time", d.text("time", d.Time), down)
	d.fail(err)
	return t.UnixMilli()
}

// tenant returns the tenant. A CloudEvent may have it in its data only.
func (d *decoder) tenant() timer.TenantID {
	field, v := d.names.tenant, d.TenantID
	if d.SpecVersion != nil && absent(v) {
		if !d.Payload.isObject() {
			d.fail(mistaken(d.names.payload, d.Payload.whole, "an object"))
		}
		field, v = d.names.payloadTenant, d.Payload.TenantID
	}
	tenant := timer.TenantID(d.text(field, v))
	d.fail(tenant.Validate())
	return tenant
}

// text returns the text of the string that a field must hold.
func (d *decoder) text(field string, v value) []byte {
	if len(v) == 0 || v[0] != '"' {
		d.fail(mistaken(field, v, "a string"))
		return nil
	}
	return unquote(v)
}

func (d *decoder) identifier(field string, v value) string {
	id := string(d.text(field, v))
	d.fail(timer.ValidateID(field, id))
	return id
}

// optional returns an identifier, or "" if it is absent.
func (d *decoder) optional(field string, v value) string {
	if absent(v) {
		return ""
	}
	return d.identifier(field, v)
}

func (d *decoder) instant(field string, v value) time.Time {
	t, err := parseTime(field, d.text(field, v), up)
	d.fail(err)
	return t
}

// maxTimestampMS is the greatest integer that every JSON implementation reads
// exactly.
const maxTimestampMS = 1<<53 - 1

// milliseconds returns the integer that a field must hold, written in digits
// alone.
func (d *decoder) milliseconds(field string, v value) int64 {
	if len(v) == 0 || jsontext.Value(v).Kind() != jsontext.KindNumber {
		d.fail(mistaken(field, v, "an integer"))
		return 0
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && n > maxTimestampMS:
		d.fail(timer.Invalid(timer.ReasonBadTime, "%s %s is greater than 2^53-1%s", field, timer.Quote(string(v)), timer.UnitHint(n)))
	case err != nil:
		d.fail(timer.Invalid(timer.ReasonBadField, "%s %s is not an integer; write Unix milliseconds in digits alone", field, timer.Quote(string(v))))
	}
	return int64(n)
}

// mistaken returns the error for a field whose value is absent or of the wrong
// kind.
func mistaken(field string, v value, wanted string) error {
	switch {
	case len(v) == 0:
		return timer.Invalid(timer.ReasonMissingField, "%s is missing; it must be %s", field, wanted)
	case absent(v):
		return timer.Invalid(timer.ReasonMissingField, "%s is null; it must be %s", field, wanted)
	}
	return timer.Invalid(timer.ReasonBadField, "%s is %s; it must be %s", field, kindNames[jsontext.Value(v).Kind()], wanted)
}

// absent reports whether an optional field is absent, which it is if its value is null, too.
func absent(v value) bool { return len(v) == 0 || v[0] == 'n' }

// textOf returns the text of a string, or "" if the value is none.
func textOf(v value) string {
	if len(v) == 0 || v[0] != '"' {
		return ""
	}
	return string(unquote(v))
}

// kindNames are the names of kinds of JSON values, for errors.
var kindNames = map[jsontext.Kind]string{
	jsontext.KindBeginObject: "an object", jsontext.KindBeginArray: "an array", jsontext.KindString: "a string", jsontext.KindNumber: "a number",
	jsontext.KindTrue: "a boolean", jsontext.KindFalse: "a boolean", jsontext.KindNull: "null",
}
