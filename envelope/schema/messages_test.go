package schema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// The schemas have keywords only that mean the same in draft 2020-12 and in draft
// 07, which is what tools for AsyncAPI read.

// namespace is the beginning of the $id of each schema. The version follows.
const namespace = "https://github.com/event-service-agent/timer-service/contract/"

// Forms of values.
const (
	tenantForm = `^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`
	callForm   = `^[A-Za-z0-9_.:-]{1,128}$`
	idForm     = `^[!-~]{1,128}$`
	// An offset may move a time of 1999 or 2201 into the years that count.
	timeForm = `^(1999|2[01][0-9][0-9]|220[01])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?` +
		`([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)$`
	uriForm         = `^([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$`
	jsonForm        = `^[^;/]+/([^;]*\+)?[Jj][Ss][Oo][Nn][^!-~]*(;|$)`
	traceParentForm = `^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`

	firstMS = 946_684_800_000 // the year 2000
	lastMS  = 1<<53 - 1
)

// A rule is one that a schema can't express.
type rule struct {
	ID, Text string
	Reasons  []timer.Reason // of the dead letter
}

var (
	ruleText      = rule{"text", `The body is UTF-8 without a byte order mark, and no escape \ud800 to \udfff is without the other half of its pair.`, []timer.Reason{timer.ReasonNotUTF8, timer.ReasonNotJSON}}
	ruleSize      = rule{"size", fmt.Sprintf("The body has at most %d bytes.", envelope.MaxBytes), []timer.Reason{timer.ReasonTooLarge}}
	ruleDepth     = rule{"depth", fmt.Sprintf("Objects and arrays are nested at most %d deep, the whole being the first.", envelope.MaxDepth), []timer.Reason{timer.ReasonTooDeep}}
	ruleDuplicate = rule{"duplicate", "No object has a key twice, whatever the object is.", []timer.Reason{timer.ReasonDuplicateKey}}
	ruleDigits    = rule{"digits", "timestampMs is written in digits alone, without fraction and exponent.", []timer.Reason{timer.ReasonBadField}}
	ruleTenant    = rule{"tenant", "The tenant of the payload is that of the message.", []timer.Reason{timer.ReasonTenantMismatch}}
	ruleCall      = rule{"call", "The service call of the payload is that of the message, if the message names one.", []timer.Reason{timer.ReasonKeyMismatch}}
	ruleDate      = rule{"date", "Days exist, and times are in the years 2000 to 2200 in UTC, due times after they are rounded up to the millisecond.", []timer.Reason{timer.ReasonBadTime}}
	ruleExpiry    = rule{"expiry", "A timer expires after it is due, its event says that it expired at expiresAt or later, or was reached before; all after they are rounded up to the millisecond.", []timer.Reason{timer.ReasonBadTime}}
	ruleData      = rule{"data", fmt.Sprintf("data has at most %d bytes as written, spaces included.", timer.MaxDataBytes), []timer.Reason{timer.ReasonTooLarge}}
	ruleDistinct  = rule{"distinct", "The payload names no service call twice.", []timer.Reason{timer.ReasonBadField}}
	ruleSource    = rule{"source", "source is a URI-reference by RFC 3986.", []timer.Reason{timer.ReasonBadField}}
	ruleJSON      = rule{"contenttype", "datacontenttype is a media type.", []timer.Reason{timer.ReasonBadField}}
)

// schemas returns all of them by name.
func schemas(t *testing.T) map[string]object {
	all := make(map[string]object)
	for _, kind := range kinds {
		payload := kind.payload()
		all[kind.name] = asEnvelope(kind, payload, example(t, kind.file))
		all[kind.name+"CloudEvent"] = asCloudEvent(kind, payload, example(t, "cloudevent_"+kind.file))
	}
	maps.Copy(all, headers(t))
	return all
}

// A kind is a type of messages.
type kind struct {
	name, file, about string
	fields            []string // of the payload, without tenantId
	rules             []rule
}

var kinds = []kind{
	{envelope.TypeScheduleTimer, "schedule_timer.json", "Asks for one DueTimeReached at dueAt, or a TimerExpired in its place.", []string{"serviceCallId", "dueAt", "expiresAt", "data"}, []rule{ruleCall, ruleDate, ruleExpiry, ruleData}},
	{envelope.TypeScheduleTimers, "schedule_timers.json", "Asks for many timers of one tenant.", []string{"timers"}, []rule{ruleDate, ruleExpiry, ruleData, ruleDistinct}},
	{envelope.TypeRescheduleTimers, "reschedule_timers.json", "Moves many timers of one tenant that have not fired.", []string{"dueAt"}, []rule{ruleDate, ruleDistinct}},
	{envelope.TypeCancelTimer, "cancel_timer.json", "Takes a timer back that has not fired.", []string{"serviceCallId"}, []rule{ruleCall}},
	{envelope.TypeCancelTimers, "cancel_timers.json", "Takes many timers of one tenant back that have not fired.", nil, []rule{ruleDistinct}},
	{envelope.TypeDueTimeReached, "due_time_reached.json", "Says that the time of a timer has come.", []string{"serviceCallId", "dueAt", "expiresAt", "reachedAt", "data"}, []rule{ruleCall, ruleDate, ruleExpiry, ruleData}},
	{envelope.TypeTimerExpired, "timer_expired.json", "Says that a timer did not fire before it expired. It comes in place of a DueTimeReached.", []string{"serviceCallId", "dueAt", "expiresAt", "expiredAt", "data"}, []rule{ruleCall, ruleDate, ruleExpiry, ruleData}},
	{string(timer.TimerScheduled), "timer_scheduled.json", "Says that a command set the due time of its timer.", []string{"serviceCallId", "dueAt"}, []rule{ruleCall, ruleDate}},
	{string(timer.TimerCanceled), "timer_canceled.json", "Says that the timer of a CancelTimer is canceled.", []string{"serviceCallId"}, []rule{ruleCall}},
	{string(timer.TimerIgnored), "timer_ignored.json", "Says that a command has no effect.", []string{"serviceCallId", "reason"}, []rule{ruleCall}},
	{string(timer.TimerRejected), "timer_rejected.json", "Says that a command was refused.", []string{"serviceCallId", "reason", "detail"}, []rule{ruleCall}},
}

func (k kind) isEvent() bool {
	return k.name == envelope.TypeDueTimeReached || k.name == envelope.TypeTimerExpired
}
func (k kind) isReceipt() bool { return envelope.IsReceipt(k.name) }
func (k kind) isMany() bool {
	return k.name == envelope.TypeScheduleTimers || k.selects()
}

// selects reports whether the message selects timers.
func (k kind) selects() bool {
	return k.name == envelope.TypeRescheduleTimers || k.name == envelope.TypeCancelTimers
}

func (k kind) payload() object {
	s := structure(k.name+"Payload", values(), append([]string{"tenantId"}, k.fields...))
	if k.name == string(timer.TimerRejected) { // the command may name no service call
		s["required"] = []string{"tenantId", "reason", "detail"}
		s["properties"].(object)["serviceCallId"] = orNull(call("With the tenant, the key of the timer."))
	}
	if k.name == envelope.TypeTimerExpired {
		s["required"] = append(s["required"].([]string), "expiresAt")
		s["properties"].(object)["expiresAt"] = text(timeForm, aboutExpiresAt)
	}
	if k.selects() {
		addSelection(s, map[string]string{
			envelope.TypeCancelTimers: "leaves a tombstone", envelope.TypeRescheduleTimers: "is left out",
		}[k.name])
	}
	return s
}

// addSelection adds the fields that say which timers, of which a payload has one. The others
// are absent or null.
func addSelection(payload object, absent string) {
	fields := payload["properties"].(object)
	fields["serviceCallIds"] = orNull(object{
		"type": "array", "minItems": 1, "maxItems": timer.MaxCancelTimers, "items": call("One of the service calls."),
		"description": "The timers of these service calls, each named once. One that has no timer " + absent + ".",
	})
	fields["prefix"] = orNull(text(callForm, "The timers whose service call begins so."))
	fields["correlationId"] = orNull(text(idForm, "The timers that carry it."))
	var one []any
	for name, kind := range map[string]string{"serviceCallIds": "array", "prefix": "string", "correlationId": "string"} {
		one = append(one, object{"required": []string{name}, "properties": object{name: object{"type": kind}}})
	}
	slices.SortFunc(one, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	payload["oneOf"] = one
}

const aboutExpiresAt = "From when on the timer must not fire any more: RFC 3339 with a zone, kept in milliseconds, rounded up, after dueAt."

// values are the fields that payloads have.
func values() map[string]any {
	v := map[string]any{
		"tenantId":      text(tenantForm, "The same as in the message."),
		"serviceCallId": call("With the tenant, the key of the timer."),
		"dueAt":         text(timeForm, "When the timer fires: RFC 3339 with a zone, kept in milliseconds, rounded up."),
		"expiresAt":     orNull(text(timeForm, aboutExpiresAt)),
		"expiredAt":     text(timeForm, "When it expired, by the clock of the service. Never before expiresAt."),
		"reachedAt":     text(timeForm, "When it fired, by the clock of the service. Never before dueAt."),
		"reason":        object{"type": "string", "minLength": 1, "description": "Of a TimerIgnored stale (a newer command was accepted before) reached (the timer has fired) expired (the timer has expired) or past_expiry (it would be due after it expires); of a TimerRejected the reason of its dead letter. More words may come."},
		"detail":        object{"type": "string", "minLength": 1, "description": "The reason for people."},
		"data":          object{"type": anyType, "description": fmt.Sprintf("Any JSON value of at most %d bytes as written. The event has it byte for byte.", timer.MaxDataBytes)},
	}
	v["timers"] = object{
		"type": "array", "minItems": 1, "maxItems": timer.MaxScheduleTimers,
		"description": "The timers. Each names another service call.",
		"items":       structure("ScheduleTimersItem", v, []string{"serviceCallId", "dueAt", "expiresAt", "data"}),
	}
	return v
}

// anyType is the type of any JSON value. Without it generators of code, such as
// json-schema-to-typescript, make an object of a value that has no type.
var anyType = []any{"object", "array", "string", "number", "boolean", "null"}

// structure returns the schema of an object with some of the fields, of which all
// are required but expiresAt and data.
func structure(title string, fields map[string]any, names []string) object {
	properties, required := make(object), make([]string, 0, len(names))
	for _, name := range names {
		properties[name] = fields[name]
		if name != "data" && name != "expiresAt" {
			required = append(required, name)
		}
	}
	return object{"title": title, "type": "object", "properties": properties, "required": required}
}

func text(pattern, about string) object {
	return object{"type": "string", "pattern": pattern, "description": about}
}

// call is the schema of a service call id.
func call(about string) object {
	s := text(callForm, about)
	s["not"] = object{"enum": []any{".", ".."}}
	return s
}

// orNull lets null stand for an absent value.
func orNull(s object) object {
	s["type"] = []any{s["type"], "null"}
	return s
}

// having is the schema of an object that has a field. The negation of it stands next to the
// fields: of a field that must be absent, generators of code make one of any type.
func having(field string) object { return object{"required": []string{field}} }

func asEnvelope(k kind, payload, example object) object {
	fields := map[string]any{
		"id":            text(idForm, "Unique per message: the key to drop repetitions by."),
		"type":          object{"const": k.name},
		"tenantId":      text(tenantForm, "Who owns the timer."),
		"aggregateId":   orNull(call("The service call id.")),
		"timestampMs":   object{"type": "integer", "minimum": firstMS, "maximum": lastMS, "description": "The producer's time in Unix milliseconds; of commands at most 24 hours ahead of the service's clock."},
		"correlationId": orNull(text(idForm, "Trace of the request.")),
		"causationId":   orNull(text(idForm, "Id of the message that caused this one.")),
		"payload":       payload,
	}
	required := []string{"id", "type", "tenantId", "timestampMs", "payload"}
	switch {
	case k.isMany():
		fields["aggregateId"] = object{"type": "null"}
	case k.isEvent():
		fields["aggregateId"] = call("The service call id.")
		required = append(required, "aggregateId")
	}
	rules := append([]rule{ruleText, ruleSize, ruleDepth, ruleDuplicate, ruleDigits, ruleTenant}, k.rules...)
	s := message(k.name, k.about, fields, required, rules, example)
	s["not"] = having("specversion") // that would be a CloudEvent
	return s
}

func asCloudEvent(k kind, payload, example object) object {
	fields := map[string]any{
		"specversion":     object{"const": "1.0"},
		"id":              text(idForm, "Unique per message, whatever its source: the key to drop repetitions by."),
		"source":          text(uriForm, "A URI-reference. It decides nothing."),
		"type":            object{"const": k.name},
		"subject":         orNull(call("The service call id.")),
		"time":            text(timeForm, "The producer's time, of which a rest finer than a millisecond is cut off; of commands at most 24 hours ahead of the service's clock."),
		"datacontenttype": orNull(text(jsonForm, "A type of JSON.")),
		"data_base64":     object{"type": "null"},
		"tenantid":        orNull(text(tenantForm, "Who owns the timer.")),
		"correlationid":   orNull(text(idForm, "Trace of the request.")),
		"causationid":     orNull(text(idForm, "Id of the message that caused this one.")),
		"data":            payload,
	}
	required := []string{"specversion", "id", "source", "type", "time", "data"}
	rules := append([]rule{ruleText, ruleSize, ruleDepth, ruleDuplicate, ruleTenant, ruleSource, ruleJSON}, k.rules...)
	switch {
	case k.isMany():
		fields["subject"] = object{"type": "null"}
	case k.isEvent():
		fields["subject"] = call("The service call id.")
		required = append(required, "subject")
	}
	if !slices.ContainsFunc(rules, func(r rule) bool { return r.ID == ruleDate.ID }) {
		rules = append(rules, ruleDate)
	}
	s := message(k.name+"CloudEvent", k.about, fields, required, rules, example)
	s["not"] = having("tenantId") // that would be an envelope
	return s
}

func message(title, about string, properties map[string]any, required []string, rules []rule, example object) object {
	comment := "Rules that no schema can express, each with the reasons of a dead letter that breaks it."
	for _, r := range rules {
		comment += fmt.Sprintf("\n%s %s: %s", r.ID, r.Reasons, r.Text)
	}
	return object{
		"title": title, "description": about, "type": "object", "properties": properties, "required": required,
		"$comment": comment, "examples": []any{example},
	}
}

// example returns a golden file of package envelope. A command is of a time that is past, so
// that the service takes it as it is.
func example(t *testing.T, file string) object {
	t.Helper()
	body, err := os.ReadFile("../testdata/" + file)
	if os.IsNotExist(err) {
		t.Fatal(err)
	}
	var v object
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	switch _, cloudEvent := v["specversion"]; {
	case v["type"] == envelope.TypeDueTimeReached || v["type"] == envelope.TypeTimerExpired || envelope.IsReceipt(v["type"].(string)):
	case cloudEvent:
		v["time"] = "2025-01-01T00:00:00Z"
	default:
		v["timestampMs"] = 1_735_689_600_000
	}
	return v
}
