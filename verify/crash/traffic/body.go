package traffic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Field is a name and a JSON value, both as they are written.
type Field struct{ Name, Value string }

// A Body is a message as JSON in the making.
type Body struct {
	Envelope []Field // all but the payload
	Payload  []Field
}

// Quote writes a JSON string.
func Quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("traffic: quote %q: %v", s, err))
	}
	return string(text)
}

// NewBody writes the fields of every message: the type, the key twice and the
// version.
func NewBody(kind, tenant, call, id string, timestampMS int64) *Body {
	return &Body{
		Envelope: []Field{
			{"id", Quote(id)},
			{"type", Quote(kind)},
			{"tenantId", Quote(tenant)},
			{"timestampMs", strconv.FormatInt(timestampMS, 10)},
		},
		Payload: []Field{
			{"tenantId", Quote(tenant)},
			{"serviceCallId", Quote(call)},
		},
	}
}

// Set gives a field of the envelope a value, as JSON; an empty one removes it. A field that is
// not there is added.
func (b *Body) Set(name, value string) *Body {
	b.Envelope = set(b.Envelope, name, value)
	return b
}

// SetPayload is Set for a field of the payload.
func (b *Body) SetPayload(name, value string) *Body {
	b.Payload = set(b.Payload, name, value)
	return b
}

func set(fields []Field, name, value string) []Field {
	i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
	switch {
	case value == "" && i >= 0:
		return slices.Delete(fields, i, i+1)
	case value == "":
		return fields
	case i < 0:
		return append(fields, Field{name, value})
	}
	fields[i].Value = value
	return fields
}

// Plain writes the body without spaces, in the order of its fields.
func (b *Body) Plain() []byte {
	return []byte(object(append(b.Envelope[:len(b.Envelope):len(b.Envelope)], b.payload()), "", ""))
}

func (b *Body) payload() Field { return Field{"payload", object(b.Payload, "", "")} }

// varied writes the body as one of many producers would: in any order, with
// spaces, with fields that the service does not know, with escapes.
func (b *Body) varied(r *rand.Rand) []byte {
	if r.IntN(2) == 0 {
		return b.Plain()
	}
	shuffle := func(fields []Field) {
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	}
	if r.IntN(2) == 0 {
		b.Payload = append(b.Payload, Field{"note", Quote("Grüße, 世界 \u2028 </script>")})
		b.Envelope = append(b.Envelope, Field{"meta", `{"v":[1,2.5e3,null,true],"tenantId":"not-this-one"}`})
	}
	if r.IntN(4) == 0 {
		for i, f := range b.Payload {
			if f.Name == "serviceCallId" {
				b.Payload[i].Value = escape(f.Value)
			}
		}
	}
	shuffle(b.Payload)
	fields := append(b.Envelope, b.payload())
	shuffle(fields)
	return []byte(object(fields, "\n\t", " "))
}

func object(fields []Field, indent, gap string) string {
	var s strings.Builder
	s.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteString(indent + `"` + f.Name + `"` + gap + ":" + gap + f.Value) // the name may hold escapes
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
