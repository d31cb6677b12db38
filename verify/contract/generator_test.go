package contract_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A field is a key and its value as they are written: text of JSON, an *object or
// a list.
type field struct {
	key   string
	value any
}

type (
	object struct{ fields []*field }
	list   []any
)

func (o *object) get(key string) *field {
	for _, f := range o.fields {
		if f.key == key {
			return f
		}
	}
	return nil
}

func (o *object) set(key string, value any) {
	if f := o.get(key); f != nil {
		f.value = value
		return
	}
	o.fields = append(o.fields, &field{key, value})
}

func (o *object) drop(key string) {
	o.fields = slices.DeleteFunc(o.fields, func(f *field) bool { return f.key == key })
}

// write appends a value as JSON.
func write(b *strings.Builder, value any) {
	switch v := value.(type) {
	case string:
		b.WriteString(v)
	case *object:
		for i, f := range v.fields {
			b.WriteString([]string{",", "{"}[btoi(i == 0)])
			b.WriteString(quote(f.key) + ":")
			write(b, f.value)
		}
		b.WriteString([]string{"}", "{}"}[btoi(len(v.fields) == 0)])
	case list:
		b.WriteString("[")
		for i, item := range v {
			if i > 0 {
				b.WriteString(",")
			}
			write(b, item)
		}
		b.WriteString("]")
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func quote(s string) string {
	b, _ := json.Marshal(s) // of a string it does not fail
	return string(b)
}

// A generator makes bodies.
type generator struct {
	*rand.Rand
	times map[string]int // how often each mutation was used
	names []string       // of all mutations
}

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), times: make(map[string]int)}
	g.names = slices.Sorted(maps.Keys(mutations))
	return g
}

func (g *generator) unused() []string {
	return slices.DeleteFunc(slices.Clone(g.names), func(name string) bool { return g.times[name] > 0 })
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

// body returns a message, valid or with one to three mistakes.
func (g *generator) body() []byte {
	m := g.message()
	mistakes := []int{0, 0, 1, 1, 1, 1, 2, 3}[g.IntN(8)]
	for range mistakes {
		name := g.pick(g.names...)
		if strings.HasPrefix(name, "64 KiB") && g.IntN(5) > 0 {
			name = g.pick(g.names...) // those take long
		}
		g.times[name]++
		mutations[name](g, m)
	}
	if g.IntN(4) == 0 {
		g.Shuffle(len(m.fields), func(i, j int) { m.fields[i], m.fields[j] = m.fields[j], m.fields[i] })
	}
	var b strings.Builder
	write(&b, m)
	body := []byte(b.String())
	if mistakes == 1 && g.IntN(8) == 0 {
		body = g.damage(body)
	}
	return body
}

// damage changes bytes of a body.
func (g *generator) damage(body []byte) []byte {
	at := g.IntN(len(body))
	switch g.IntN(5) {
	case 0:
		body[at] = byte(g.IntN(256))
	case 1:
		body = body[:at]
	case 2:
		body = append(body, g.pick(" ", "\n", "\x00", "{}", ",", "\xff")...)
	case 3:
		body = append([]byte(g.pick("\uFEFF", " ", "\t", "[")), body...)
	default:
		body = slices.Insert(body, at, byte(g.IntN(256)))
	}
	return body
}

// message returns a valid message of any type, in either form.
func (g *generator) message() *object {
	kind := g.pick("ScheduleTimer", "ScheduleTimer", "ScheduleTimers", "CancelTimer", "DueTimeReached", "TimerScheduled", "TimerCanceled", "TimerIgnored", "TimerRejected")
	tenant, call := quote(g.letters(1+g.IntN(64))), quote(g.letters(1+g.IntN(128)))
	m, payload := &object{}, &object{}
	payload.set("tenantId", tenant)
	if kind == "ScheduleTimers" {
		payload.set("timers", g.timers(1+g.IntN(3)))
	} else {
		payload.set("serviceCallId", call)
		if strings.HasPrefix(kind, "Schedule") || kind == "DueTimeReached" || kind == "TimerScheduled" {
			g.due(payload)
		}
	}
	if kind == "DueTimeReached" {
		payload.set("reachedAt", quote(g.instant()))
	}
	if kind == "TimerIgnored" || kind == "TimerRejected" {
		payload.set("reason", quote(g.pick("stale", "reached", "bad_time", "")))
		payload.set("detail", quote(g.pick("é", "", "x")))
	}
	named := kind == "DueTimeReached" || kind != "ScheduleTimers" && g.IntN(2) == 0
	m.set("id", quote(g.visible(1+g.IntN(128))))
	m.set("type", quote(kind))
	if g.IntN(3) > 0 {
		m.set("tenantId", tenant)
		m.set("timestampMs", fmt.Sprint(firstMS+g.Int64N(1<<53-firstMS)))
		g.maybe(m, "correlationId", "causationId")
		if named {
			m.set("aggregateId", call)
		}
		m.set("payload", payload)
		return m
	}
	m.set("specversion", `"1.0"`)
	m.set("source", quote(g.pick("/orders", "urn:a:b", "https://example.com/a?b#c", "%2f")))
	m.set("time", quote(g.instant()))
	if g.IntN(2) == 0 {
		m.set("datacontenttype", g.pick(`"application/json"`, `"text/json; a=b"`, `"application/cloudevents+json"`, `" Application/JSON "`, "null"))
	}
	if g.IntN(2) == 0 {
		m.set("tenantid", g.pick(tenant, tenant, "null"))
	}
	g.maybe(m, "correlationid", "causationid")
	if named {
		m.set("subject", call)
	}
	m.set("data", payload)
	return m
}

// maybe sets some of the identifiers.
func (g *generator) maybe(m *object, keys ...string) {
	for _, key := range keys {
		if g.IntN(2) == 0 {
			m.set(key, quote(g.visible(1+g.IntN(128))))
		}
	}
}

func (g *generator) timers(n int) list {
	items := make(list, n)
	for i := range items {
		item := &object{}
		item.set("serviceCallId", quote(fmt.Sprint("call-", i)))
		g.due(item)
		items[i] = item
	}
	return items
}

// due sets a due time, and perhaps data.
func (g *generator) due(o *object) {
	o.set("dueAt", quote(g.instant()))
	if g.IntN(3) == 0 {
		o.set("data", g.pick("null", "0", `""`, `{"a": [1, 2.50, {}]}`, "[]", "true", " { } ", quote(strings.Repeat("d", g.IntN(100)))))
	}
}

// instant returns a valid time.
func (g *generator) instant() string {
	t := time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC).Add(time.Duration(g.Int64N(int64(200 * 365 * 24 * time.Hour))))
	t = t.In(time.FixedZone("", (g.IntN(28*60+1)-14*60)*60))
	s := t.Format("2006-01-02T15:04:05") + g.pick("", ".5", ".123", ".000000001", ".9999", "."+strings.Repeat("9", 30)) + t.Format("Z07:00")
	if g.IntN(5) == 0 {
		s = strings.ToLower(s)
	}
	return s
}

const letters = "ABCXYZabcxyz0189"

// letters returns what is both a tenant and a service call.
func (g *generator) letters(n int) string {
	return letters[:1] + g.of(letters+"_-", n-1)
}

// visible returns an identifier.
func (g *generator) visible(n int) string {
	var all strings.Builder
	for c := '!'; c <= '~'; c++ {
		all.WriteRune(c)
	}
	return g.of(all.String(), n)
}

func (g *generator) of(from string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = from[g.IntN(len(from))]
	}
	return string(b)
}
