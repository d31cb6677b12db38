package contract_test

import (
	"fmt"
	"strings"
)

// mutations are mistakes, and changes that look like one. They are applied to a
// valid message, or to one that others have changed before.
var mutations = map[string]func(g *generator, m *object){
	"absent":     func(g *generator, m *object) { o, f := g.any(m); o.drop(f.key) },
	"null":       func(g *generator, m *object) { _, f := g.any(m); f.value = "null" },
	"other type": func(g *generator, m *object) { _, f := g.any(m); f.value = g.pick(kinds...) },
	"other case": func(g *generator, m *object) {
		_, f := g.any(m)
		f.key = g.pick(strings.ToUpper(f.key), strings.ToLower(f.key), strings.ToUpper(f.key[:1])+f.key[1:])
	},
	"other text": func(g *generator, m *object) { _, f := g.any(m); f.value = g.pick(texts...) },
	"long string": func(g *generator, m *object) {
		_, f := g.any(m)
		f.value = quote(strings.Repeat("a", g.size(64, 128, 4096)))
	},
	"escaped": func(g *generator, m *object) {
		if _, f := g.any(m); isText(f.value) {
			f.value = `"\u00` + fmt.Sprintf("%02x", f.value.(string)[1]) + f.value.(string)[2:]
		}
	},
	"duplicate": func(g *generator, m *object) {
		o, f := g.any(m)
		o.fields = append(o.fields, &field{f.key, g.pick(append(kinds, "null")...)}, &field{f.key, f.value})
	},
	"duplicate elsewhere": func(g *generator, m *object) {
		o, _ := g.any(m)
		o.set("x", g.pick(`{"a":1,"a":1}`, `[{"b":{"a":1,"\u0061":1}}]`, `{"a":{"a":1},"b":{"a":1}}`))
	},
	"unknown key": func(g *generator, m *object) { o, _ := g.any(m); o.set("unknown", g.pick(append(kinds, texts...)...)) },
	"other form": func(g *generator, m *object) {
		m.set(g.pick("specversion", "tenantId", "tenantid", "data", "payload"), g.pick(`"1.0"`, `"acme"`, "null", "{}"))
	},
	"other tenant": func(_ *generator, m *object) { payloadOf(m).set("tenantId", `"other"`) },
	"same tenant": func(g *generator, m *object) {
		tenant := g.pick(append(texts, quote(strings.Repeat("a", g.size(64))), `""`)...)
		payloadOf(m).set("tenantId", tenant)
		for _, key := range []string{"tenantId", "tenantid"} {
			if f := m.get(key); f != nil {
				f.value = tenant
			}
		}
	},
	"same call": func(g *generator, m *object) {
		call := g.pick(append(texts, quote(strings.Repeat("a", g.size(128))), `""`)...)
		g.item(m).set("serviceCallId", call)
		for _, key := range []string{"aggregateId", "subject"} {
			if f := m.get(key); f != nil {
				f.value = call
			}
		}
	},
	"other call": func(g *generator, m *object) {
		m.set(g.pick("aggregateId", "subject"), g.pick(`"other"`, "null", `""`))
	},
	"another type": func(g *generator, m *object) {
		m.set("type", g.pick(`"ScheduleTimer"`, `"ScheduleTimers"`, `"CancelTimer"`, `"DueTimeReached"`, `"TimerPaused"`, `""`, `"scheduleTimer"`))
	},
	"time":          func(g *generator, m *object) { g.timeOf(m).value = quote(g.pick(times...)) },
	"composed time": func(g *generator, m *object) { g.timeOf(m).value = quote(g.anyTime()) },
	"cloud time":    func(g *generator, m *object) { m.set("time", quote(g.pick(times...))) },
	"timestamp":     func(g *generator, m *object) { m.set("timestampMs", g.pick(numbers...)) },
	"source": func(g *generator, m *object) {
		m.set("source", quote(g.pick("", ":", "%", "%zz", "http://[::1", "a b", "//a:b", "é", "http://a:b/")))
	},
	"content type": func(g *generator, m *object) { m.set("datacontenttype", quote(g.pick(types...))) },
	"base64":       func(g *generator, m *object) { m.set("data_base64", g.pick("null", `"e30="`, `""`)) },
	"trace": func(g *generator, m *object) {
		m.set(g.pick("traceparent", "tracestate"), g.pick(append(kinds, texts...)...))
	},
	"large data": func(g *generator, m *object) { g.item(m).set("data", g.data(g.size(4096))) },
	"deep data": func(g *generator, m *object) {
		n := 11 + g.IntN(6)
		g.item(m).set("data", strings.Repeat("[", n)+strings.Repeat("]", n))
	},
	"deep elsewhere": func(g *generator, m *object) {
		n := 13 + g.IntN(5)
		m.set("x", strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n))
	},
	"64 KiB, about": func(g *generator, m *object) { m.set("x", quote(strings.Repeat("x", 63_000+g.IntN(5_000)))) },
	"64 KiB, exact": func(g *generator, m *object) { fill(m, 65536+g.IntN(3)-1) },
	"64 KiB, timers": func(g *generator, m *object) {
		payloadOf(m).set("timers", g.timers([]int{0, 1, 2, 3, 4, 500, 501}[g.IntN(7)]))
	},
	"same timers": func(g *generator, m *object) {
		if timers, ok := value(payloadOf(m).get("timers")).(list); ok && len(timers) > 0 {
			payloadOf(m).set("timers", append(timers, timers[g.IntN(len(timers))]))
		}
	},
	"odd timer": func(g *generator, m *object) {
		if timers, ok := value(payloadOf(m).get("timers")).(list); ok {
			payloadOf(m).set("timers", append(timers, g.pick(append(kinds, "null")...)))
		}
	},
}

var (
	kinds = []string{`"text"`, `""`, "7", "0", "-1", "1.5", "true", "false", "[]", "{}", `["a"]`, `{"a":"b"}`}
	texts = []string{
		`"a b"`, `" a"`, `"a\n"`, `"a\u0000"`, `"é"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud800"`, `"\udc00a"`, `"\\ud800"`, "\"\xff\"", "\"\xed\xa0\x80\"", "\"\u2028\"",
		`"_"`, `"-a"`, `"a/b"`, `"a.b"`, `"a:b"`, `"*"`, `"{tenant}"`, `"\x41"`, "\"\x01\"", `"1893456000000"`, `"null"`,
	}
	times = []string{
		"2030-02-30T00:00:00Z", "2030-02-29T00:00:00Z", "2028-02-29T00:00:00Z", "2100-02-29T00:00:00Z", "2030-04-31T00:00:00Z", "2030-13-01T00:00:00Z", "2030-00-01T00:00:00Z", "2030-01-00T00:00:00Z",
		"1999-12-31T23:59:59.9991Z", "1999-12-31T23:59:59.999Z", "1999-12-31T23:59:59-00:01", "1999-12-31T23:59:59+00:01", "2000-01-01T00:00:00+00:01", "2000-01-01T00:00:00Z",
		"2200-12-31T23:59:59.999Z", "2200-12-31T23:59:59.9991Z", "2201-01-01T00:00:00Z", "2201-01-01T00:00:00+00:01", "2200-12-31T23:59:59-00:01", "2202-01-01T00:00:00Z", "1998-12-31T00:00:00Z",
		"2030-01-01T00:00:00", "2030-01-01T00:00:00z", "2030-01-01t00:00:00Z", "2030-01-01 00:00:00Z", "2030-01-01T24:00:00Z", "2030-01-01T23:60:00Z", "2030-01-01T23:59:60Z", "2030-01-01T00:00:00,5Z",
		"2030-01-01T00:00:00.Z", "2030-01-01T0:00:00Z", "2030-1-01T00:00:00Z", "2030-01-01", "2030-01-01T00:00Z", "2030-01-01T00:00:00+14:00", "2030-01-01T00:00:00+14:01", "2030-01-01T00:00:00-14:00",
		"2030-01-01T00:00:00+13:60", "2030-01-01T00:00:00+1:00", "2030-01-01T00:00:00+0100", "2030-01-01T00:00:00-00:00", "2030-01-01T00:00:00Z\n", " 2030-01-01T00:00:00Z", "12030-01-01T00:00:00Z", "soon", "",
		"２０30-01-01T00:00:00Z", "2030-01-01T00:00:00.1234567890123456789Z",
	}
	numbers = []string{
		"0", "-0", "1", "-1", "946684799999", "946684800000", "946684800000.0", "1893456000000.0", "1893456000000.5", "1.893456e12", "1893456E6", "9007199254740991", "9007199254740992",
		"9007199254740991.0", "18446744073709551617", "01", "+1", `"1893456000000"`, "null", "1893456000", "1893456000000000", "99e9", "1e-3",
	}
	types = []string{
		"application/json", "APPLICATION/JSON", "text/json", "application/vnd.a.b+json", "application/json; charset=utf-8", "application/json;", "application/json ;a=b", "application/json;a", "application/json;a=b;a=c", "application/json;;", "application/json; =", "a,b/json", "(a)/json", "a b/x+json",
		"application/xml", "json", "/json", "application/", "a/b/json", "application/jsonx", "application/x-json", "application/+json", "", " ", "\u00a0text/json\u2003", "a b/json", "application/json,text/json", "application/xml;a=+json",
	}
)

// any returns a field of a message, and the object that has it.
func (g *generator) any(m *object) (*object, *field) {
	o := m
	if payload := payloadOf(m); g.IntN(2) == 0 && len(payload.fields) > 0 {
		o = payload
		if timers, ok := value(o.get("timers")).(list); ok && len(timers) > 0 && g.IntN(2) == 0 {
			if item, ok := timers[g.IntN(len(timers))].(*object); ok && len(item.fields) > 0 {
				o = item
			}
		}
	}
	if len(o.fields) == 0 {
		o.set("x", "1")
	}
	return o, o.fields[g.IntN(len(o.fields))]
}

// item returns what has a due time: the payload, or a timer.
func (g *generator) item(m *object) *object {
	o := payloadOf(m)
	if timers, ok := value(o.get("timers")).(list); ok && len(timers) > 0 {
		if item, ok := timers[g.IntN(len(timers))].(*object); ok {
			return item
		}
	}
	return o
}

// timeOf returns a field that holds a time.
func (g *generator) timeOf(m *object) *field {
	o := g.item(m)
	key := g.pick("dueAt", "dueAt", "reachedAt")
	if o.get(key) == nil {
		o.set(key, `""`)
	}
	return o.get(key)
}

// anyTime puts a time together.
func (g *generator) anyTime() string {
	return fmt.Sprintf("%04d-%02d-%02d%s%02d:%02d:%02d%s%s", 1998+g.IntN(206), g.IntN(14), g.IntN(33), g.pick("T", "T", "T", "t", " "), g.IntN(25), g.IntN(61), g.IntN(61),
		g.pick("", ".5", ".9999", ",5"), g.pick("Z", "z", "+14:00", "-13:59", "", fmt.Sprintf("+%02d:%02d", g.IntN(16), g.IntN(62))))
}

// size returns one of the limits, or one more or less.
func (g *generator) size(limits ...int) int { return limits[g.IntN(len(limits))] + g.IntN(3) - 1 }

// data returns a JSON value of n bytes.
func (g *generator) data(n int) string {
	if g.IntN(2) == 0 {
		return `"` + strings.Repeat("d", n-2) + `"`
	}
	return "[" + strings.Repeat(" ", n-3) + g.pick("1", "2") + "]"
}

// fill makes a message n bytes long.
func fill(m *object, n int) {
	m.set("x", `""`)
	var b strings.Builder
	write(&b, m)
	if more := n - b.Len(); more > 0 {
		m.set("x", `"`+strings.Repeat("x", more)+`"`)
	}
}

func value(f *field) any {
	if f == nil {
		return nil
	}
	return f.value
}

// payloadOf returns the payload of a message, or an object that is no part of it.
func payloadOf(m *object) *object {
	for _, key := range []string{"payload", "data"} {
		if o, ok := value(m.get(key)).(*object); ok {
			return o
		}
	}
	return &object{}
}

// isText reports whether a value is a JSON string of letters.
func isText(v any) bool {
	s, ok := v.(string)
	return ok && len(s) > 2 && s[0] == '"' && s[1] > ' ' && s[1] < 0x7f && s[1] != '\\' && s[1] != '"'
}
