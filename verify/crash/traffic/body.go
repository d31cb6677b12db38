package traffic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// A field is a name and a JSON value, both as they are written.
type field struct{ name, value string }

// A body is a command as JSON in the making.
type body struct {
	envelope []field // all but the payload
	payload  []field
}

// quote writes a JSON string.
func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("traffic: quote %q: %v", s, err))
	}
	return string(text)
}

// newBody writes what every message has: the type, the key twice and the
// version.
func newBody(kind, tenant, call, id string, timestampMS int64) *body {
	return &body{
		envelope: []field{
			{"id", quote(id)},
			{"type", quote(kind)},
			{"tenantId", quote(tenant)},
			{"timestampMs", strconv.FormatInt(timestampMS, 10)},
		},
		payload: []field{
			{"tenantId", quote(tenant)},
			{"serviceCallId", quote(call)},
		},
	}
}

// set gives a field of the envelope a value, as JSON. A field that is not there
// is added.
func (b *body) set(name, value string) *body {
	b.envelope = set(b.envelope, name, value)
	return b
}

// setPayload is set for a field of the payload.
func (b *body) setPayload(name, value string) *body {
	b.payload = set(b.payload, name, value)
	return b
}

func set(fields []field, name, value string) []field {
	for i := range fields {
		if fields[i].name == name {
			fields[i].value = value
			return fields
		}
	}
	return append(fields, field{name, value})
}

// without removes a field of the envelope.
func (b *body) without(name string) *body {
	b.envelope = without(b.envelope, name)
	return b
}

// withoutPayload removes a field of the payload.
func (b *body) withoutPayload(name string) *body {
	b.payload = without(b.payload, name)
	return b
}

func without(fields []field, name string) []field {
	kept := fields[:0]
	for _, f := range fields {
		if f.name != name {
			kept = append(kept, f)
		}
	}
	return kept
}

// plain writes the body without spaces, in the order of its fields.
func (b *body) plain() []byte { return []byte(object(append(b.envelope, b.payloadField()), "", "")) }

func (b *body) payloadField() field { return field{"payload", object(b.payload, "", "")} }

// varied writes the body as one of many producers would: in any order, with
// spaces, with fields that the service does not know, with escapes.
func (b *body) varied(r *rand.Rand) []byte {
	if r.IntN(2) == 0 {
		return b.plain()
	}
	shuffle := func(fields []field) {
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	if r.IntN(2) == 0 {
		b.payload = append(b.payload, field{"note", quote("Grüße, 世界 \u2028 </script>")})
		b.envelope = append(b.envelope, field{"meta", `{"v":[1,2.5e3,null,true],"tenantId":"not-this-one"}`})
	}
	if r.IntN(4) == 0 {
		for i, f := range b.payload {
			if f.name == "serviceCallId" {
				b.payload[i].value = escape(f.value)
			}
		}
	}
	shuffle(b.payload)
	fields := append(b.envelope, b.payloadField())
	shuffle(fields)
	return []byte(object(fields, "\n\t", " "))
}

func object(fields []field, indent, gap string) string {
	var s strings.Builder
	s.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteString(indent + quote(f.name) + gap + ":" + gap + f.value)
	}
	if indent != "" {
		s.WriteByte('\n')
	}
	s.WriteByte('}')
	return s.String()
}

// escape writes each character of a JSON string of ASCII as \u00xx.
func escape(quoted string) string {
	var s strings.Builder
	s.WriteByte('"')
	for _, c := range []byte(quoted[1 : len(quoted)-1]) {
		fmt.Fprintf(&s, `\u%04x`, c)
	}
	s.WriteByte('"')
	return s.String()
}

// dueTime writes a time as one of many producers would: in UTC or in a zone,
// with or without a fraction. It returns the time that an event must repeat.
func dueTime(r *rand.Rand, t time.Time) (text string, kept time.Time) {
	kept = t.UTC().Truncate(time.Millisecond)
	zone := time.UTC
	if r.IntN(3) == 0 {
		minutes := (r.IntN(2*14*4+1) - 14*4) * 15
		zone = time.FixedZone("", minutes*60)
	}
	switch r.IntN(6) {
	case 0: // finer than a millisecond: rounded up
		finer := time.Duration(1 + r.IntN(999_999))
		text = kept.Add(finer).In(zone).Format("2006-01-02T15:04:05.000000000Z07:00")
		kept = kept.Add(time.Millisecond)
	case 1: // whole seconds
		kept = kept.Truncate(time.Second).Add(time.Second)
		text = kept.In(zone).Format(time.RFC3339)
	case 2: // more digits than needed
		text = kept.In(zone).Format("2006-01-02T15:04:05.000000Z07:00")
	default:
		text = kept.In(zone).Format("2006-01-02T15:04:05.000Z07:00")
	}
	return text, kept
}
