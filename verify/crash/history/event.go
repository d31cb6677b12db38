package history

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Topics of the service, as this client knows them.
const (
	CommandsTopic = "timer.commands"
	AllTopics     = "svc.>" // events and dead letters of all tenants

	topicPrefix  = "svc."
	eventSuffix  = ".serviceCall"
	letterSuffix = ".dlq"
)

// EventsTopic returns where the events of a tenant arrive.
func EventsTopic(tenant string) string { return topicPrefix + tenant + eventSuffix }

// DeadLettersTopic returns where the dead letters of a tenant arrive. The tenant
// "_" has those of messages that name none.
func DeadLettersTopic(tenant string) string { return topicPrefix + tenant + letterSuffix }

// DedupeHeader is the header by which the broker knows a message, whatever it
// calls that.
const DedupeHeader = "Nats-Msg-Id"

// ReasonHeader is the header of a dead letter with the reason.
const ReasonHeader = "deadLetterReason"

// A Message is a message that the broker delivered.
type Message struct {
	Topic  string            `json:"topic"`
	Seq    uint64            `json:"seq"` // where the broker keeps it
	At     time.Time         `json:"at"`  // when the broker stored it
	Header map[string]string `json:"header,omitzero"`
	Body   []byte            `json:"body"`
}

// isDeadLetter reports whether the message arrived on a topic of dead letters.
func (m Message) isDeadLetter() bool {
	return strings.HasPrefix(m.Topic, topicPrefix) && strings.HasSuffix(m.Topic, letterSuffix)
}

// An event is a message that says that a due time is reached.
type event struct {
	Message
	Key
	id          string
	correlation string
	dueAt       time.Time
	reachedAt   time.Time
}

// timeFormat is the only form of a time in an event.
const timeFormat = "2006-01-02T15:04:05.000Z"

// parseEvent reads an event as strictly as the contract describes it: body,
// header and id.
func parseEvent(m Message) (event, error) {
	var body struct {
		ID            string          `json:"id"`
		Type          string          `json:"type"`
		TenantID      string          `json:"tenantId"`
		AggregateID   string          `json:"aggregateId"`
		TimestampMS   int64           `json:"timestampMs"`
		CorrelationID string          `json:"correlationId"`
		CausationID   json.RawMessage `json:"causationId"`
		Payload       struct {
			TenantID      string `json:"tenantId"`
			ServiceCallID string `json:"serviceCallId"`
			DueAt         string `json:"dueAt"`
			ReachedAt     string `json:"reachedAt"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(m.Body, &body); err != nil {
		return event{}, fmt.Errorf("decode the event: %w", err)
	}
	e := event{
		Message:     m,
		Key:         Key{Tenant: body.Payload.TenantID, Call: body.Payload.ServiceCallID},
		id:          body.ID,
		correlation: body.CorrelationID,
	}
	var err error
	if e.dueAt, err = time.Parse(timeFormat, body.Payload.DueAt); err != nil {
		return e, fmt.Errorf("dueAt: %w", err)
	}
	if e.reachedAt, err = time.Parse(timeFormat, body.Payload.ReachedAt); err != nil {
		return e, fmt.Errorf("reachedAt: %w", err)
	}
	switch {
	case body.Type != "DueTimeReached":
		return e, fmt.Errorf("its type is %q", body.Type)
	case body.TenantID != body.Payload.TenantID:
		return e, fmt.Errorf("tenantId is %q, payload.tenantId %q", body.TenantID, body.Payload.TenantID)
	case body.AggregateID != body.Payload.ServiceCallID:
		return e, fmt.Errorf("aggregateId is %q, payload.serviceCallId %q", body.AggregateID, body.Payload.ServiceCallID)
	case body.CausationID != nil:
		return e, fmt.Errorf("it has the causationId %s, but time caused it", body.CausationID)
	case body.TimestampMS <= 0:
		return e, fmt.Errorf("timestampMs is %d", body.TimestampMS)
	}
	if err := checkID(e.id, e.dueAt); err != nil {
		return e, err
	}
	return e, e.checkHeader()
}

// checkHeader compares the header with the body, which it repeats.
func (e event) checkHeader() error {
	for name, want := range map[string]string{
		"type":          "DueTimeReached",
		"tenantId":      e.Tenant,
		"serviceCallId": e.Call,
		"messageId":     e.id,
		"correlationId": e.correlation,
		DedupeHeader:    e.id,
	} {
		if got := e.Header[name]; got != want {
			return fmt.Errorf("header %s is %q, by the body it is %q", name, got, want)
		}
	}
	return nil
}

// checkID returns an error unless id is a UUID of version 7 whose time is the
// due time.
func checkID(id string, dueAt time.Time) error {
	raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(raw) != 16 || len(id) != 36 || raw[6]>>4 != 7 || raw[8]>>6 != 2 {
		return fmt.Errorf("id %q is no UUID of version 7", id)
	}
	if ms := int64(binary.BigEndian.Uint64(raw) >> 16); ms != dueAt.UnixMilli() {
		return fmt.Errorf("id %s carries the time %s, not the due time", id, time.UnixMilli(ms).UTC().Format(timeFormat))
	}
	return nil
}

// changeable matches the two values that may differ between two attempts at the
// same event.
var changeable = regexp.MustCompile(`"reachedAt"\s*:\s*"[^"]*"|"timestampMs"\s*:\s*\d+`)

// lasting returns what must be equal in all attempts at the same event.
func lasting(body []byte) string {
	return string(changeable.ReplaceAllFunc(body, func(field []byte) []byte {
		name, _, _ := strings.Cut(string(field), ":")
		return []byte(name)
	}))
}
