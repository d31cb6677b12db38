package traffic

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// A poison is one way in which a message can be invalid.
type poison struct {
	name  string
	where destination
	make  func(g *Generator, b *Body, now time.Time) []byte
}

// A destination says which tenants' dead letters a poison message may be among.
type destination int

const (
	own      destination = iota // it names its tenant unmistakably
	noTenant                    // it names none
	either                      // where it breaks, its tenant can be read or not
)

// poisons are all of them. Each gets the body of a valid ScheduleTimer to spoil.
var poisons = [...]poison{
	{"no JSON", noTenant, func(g *Generator, _ *Body, _ time.Time) []byte { return fmt.Appendf(nil, "this is no JSON %d", g.made) }},
	{"empty", noTenant, func(*Generator, *Body, time.Time) []byte { return nil }},
	{"an array", noTenant, func(_ *Generator, b *Body, _ time.Time) []byte { return []byte("[" + string(b.Plain()) + "]") }},
	{"no tenant", noTenant, envelope("tenantId", "")},
	{"a tenant that is a pattern", noTenant, tenant(`"evil.>"`)},
	{"a tenant that is a path", noTenant, tenant(`"../evil"`)},
	{"the tenant of those without one", noTenant, tenant(`"_"`)},
	{"a tenant that is null", noTenant, tenant(`null`)},
	{"a huge tenant", noTenant, tenant(Quote(strings.Repeat("t", 8000)))},
	{"two tenants", noTenant, func(_ *Generator, b *Body, _ time.Time) []byte {
		b.Envelope = append(b.Envelope, Field{"tenantId", `"other"`})
		return b.Plain()
	}},

	{"cut off", either, func(_ *Generator, b *Body, _ time.Time) []byte { text := b.Plain(); return text[:len(text)*3/4] }},
	{"two values", either, func(_ *Generator, b *Body, _ time.Time) []byte { return append(b.Plain(), b.Plain()...) }},
	{"no UTF-8", either, envelope("correlationId", "\"\xff\xfe\"")},
	{"a key twice", either, func(_ *Generator, b *Body, _ time.Time) []byte {
		b.Envelope = append(b.Envelope, Field{"id", `"other"`})
		return b.Plain()
	}},
	{"a key in the wrong case", either, func(_ *Generator, b *Body, _ time.Time) []byte {
		return []byte(strings.Replace(string(b.Plain()), `"tenantId"`, `"TenantId"`, 1))
	}},
	{"too large", either, envelope("pad", Quote(strings.Repeat("x", 66_000)))},
	{"too deep", either, envelope("deep", strings.Repeat("[", 40)+strings.Repeat("]", 40))},
	{"another tenant in the payload", either, payload("tenantId", `"other"`)},

	{"another aggregate", own, envelope("aggregateId", `"other"`)},
	{"no type", own, envelope("type", "")},
	{"a type that is a number", own, envelope("type", "7")},
	{"no id", own, envelope("id", "")},
	{"an id with a space", own, envelope("id", `"a b"`)},
	{"a huge id", own, envelope("id", Quote(strings.Repeat("i", 129)))},
	{"a timestamp in quotes", own, envelope("timestampMs", `"1700000000000"`)},
	{"a timestamp with a fraction", own, envelope("timestampMs", "1700000000000.5")},
	{"a timestamp below zero", own, envelope("timestampMs", "-1")},
	{"a correlation that is empty", own, envelope("correlationId", `""`)},
	{"no service call", own, payload("serviceCallId", "")},
	{"a service call that is a path", own, payload("serviceCallId", `"a/b"`)},
	{"no due time", own, payload("dueAt", "")},
	{"a due time that is null", own, payload("dueAt", "null")},
	{"a due time that is a number", own, payload("dueAt", "1900000000000")},
	{"a due time without a zone", own, payload("dueAt", `"2030-01-31T12:00:00"`)},
	{"a due time with a comma", own, payload("dueAt", `"2030-01-31T12:00:00,5Z"`)},
	{"a due time at the hour 24", own, payload("dueAt", `"2030-01-31T24:00:00Z"`)},
	{"a due time far off Greenwich", own, payload("dueAt", `"2030-01-31T12:00:00+15:00"`)},
	{"a due time on no day", own, payload("dueAt", `"2030-02-30T12:00:00Z"`)},
	{"a due time beyond the horizon", own, func(_ *Generator, b *Body, now time.Time) []byte {
		return b.SetPayload("dueAt", Quote(now.UTC().AddDate(20, 0, 0).Format(time.RFC3339))).Plain()
	}},
	{"a due time in the year 9999", own, payload("dueAt", `"9999-12-31T23:59:59Z"`)},
}

// envelope spoils a field of the envelope: it gets a value, as JSON, or goes if
// the value is empty.
func envelope(name, value string) func(*Generator, *Body, time.Time) []byte {
	return func(_ *Generator, b *Body, _ time.Time) []byte { return b.Set(name, value).Plain() }
}

// payload is envelope for a field of the payload.
func payload(name, value string) func(*Generator, *Body, time.Time) []byte {
	return func(_ *Generator, b *Body, _ time.Time) []byte { return b.SetPayload(name, value).Plain() }
}

// tenant makes both tenants, that of the envelope and that of the payload, a
// value, as JSON.
func tenant(value string) func(*Generator, *Body, time.Time) []byte {
	return func(_ *Generator, b *Body, _ time.Time) []byte {
		return b.Set("tenantId", value).SetPayload("tenantId", value).Plain()
	}
}

// poison makes up an invalid message, of one kind after the other.
func (g *Generator) poison(now time.Time) history.Command {
	p := poisons[g.poisoned%len(poisons)]
	g.poisoned++
	tenant := g.tenants[g.rand.IntN(len(g.tenants))]
	// The note makes each body the only one of its kind.
	b := NewBody("ScheduleTimer", tenant, fmt.Sprintf("poison-%d", g.made), g.id(), now.UnixMilli()).
		SetPayload("dueAt", Quote(now.Add(time.Second).UTC().Format(time.RFC3339Nano))).
		Set("note", strconv.Itoa(g.made))
	c := history.Command{Kind: history.Poison, Note: p.name, Body: p.make(g, b, now)}
	switch p.where {
	case own:
		c.DeadLetterTopics = []string{history.DeadLettersTopic(tenant)}
	case noTenant:
		c.DeadLetterTopics = []string{history.DeadLettersTopic("_")}
	case either:
		c.DeadLetterTopics = []string{history.DeadLettersTopic(tenant), history.DeadLettersTopic("_")}
	}
	return c
}

// foreign makes up a message of a type that is not the service's.
func (g *Generator) foreign(now time.Time) history.Command {
	tenant := g.tenants[g.rand.IntN(len(g.tenants))]
	b := NewBody("InvoicePaid", tenant, fmt.Sprintf("invoice-%d", g.made), g.id(), now.UnixMilli())
	return history.Command{Kind: history.Foreign, Note: "of another type", Body: b.varied(g.rand)}
}
