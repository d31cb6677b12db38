package poison_test

import (
	"fmt"
	"strings"
	"time"
)

// alien returns a text that is no identifier of any kind.
func (g *gunner) alien() string {
	return g.pick(" ", "a b", "a\r\nb", "a\x00", "\x00", "a\tb", "\x7f", "é", "аcme", "ａｃｍｅ", "\u202eemca", "a\u200db", "a\u200b", "\ufeffa", "世界", "💥",
		"acme\r\nPUB svc.acme.serviceCall 2\r\n{}", "a\u2028b", "a\u0085", "\u00a0", "a ", " a", "a\n")
}

// jsonOf returns a JSON value that is no string, or with strings, no number.
func (g *gunner) wrong(number bool) string {
	if number {
		return g.pick(`"1700000000000"`, `""`, "true", "false", "{}", "[]", "[1]", `{"n":1}`)
	}
	return g.pick("0", "7", "-1", "1.5", "1e400", "true", "false", "{}", "[]", `["acme"]`, `{"acme":"acme"}`)
}

// fields spoil a field of a command.
var fields = []kind{
	{"a field missing", func(g *gunner) shot {
		return g.command().set(g.pick("id", "type", "timestampMs"), "").invalid(missingField)
	}},
	{"a field null", func(g *gunner) shot {
		return g.command().set(g.pick("id", "type", "timestampMs"), "null").invalid(missingField)
	}},
	{"a field empty", func(g *gunner) shot {
		return g.command().set(g.pick("id", "type", "correlationId", "causationId"), `""`).invalid(missingField)
	}},
	{"a field in another case", func(g *gunner) shot {
		c, name := g.command(), g.pick("id", "type", "timestampMs")
		for i := range c.top {
			if c.top[i].name == name {
				c.top[i].name = strings.ToUpper(name)
			}
		}
		return c.invalid(missingField)
	}},
	{"a field of the wrong type", func(g *gunner) shot {
		if g.IntN(4) == 0 {
			return g.command().set("timestampMs", g.wrong(true)).invalid(badField)
		}
		return g.command().set(g.pick("id", "type", "correlationId", "causationId", "aggregateId"), g.wrong(false)).invalid(badField)
	}},
	{"no payload", func(g *gunner) shot {
		c := g.command()
		c.payload = nil
		switch g.IntN(3) {
		case 0:
			return c.invalid(missingField)
		case 1:
			return c.set("payload", "null").invalid(missingField)
		}
		return c.set("payload", g.pick("[]", `"{}"`, "1", "true", `[{"tenantId":"acme"}]`)).invalid(badField)
	}},
	{"a field of the payload missing", func(g *gunner) shot {
		return g.command().inner(g.pick("tenantId", "serviceCallId", "dueAt"), "").invalid(missingField)
	}},
	{"a field of the payload null", func(g *gunner) shot {
		return g.command().inner(g.pick("tenantId", "serviceCallId", "dueAt"), "null").invalid(missingField)
	}},
	{"a field of the payload of the wrong type", func(g *gunner) shot {
		return g.command().inner(g.pick("tenantId", "serviceCallId", "dueAt"), g.wrong(false)).invalid(badField)
	}},
	{"a timestamp that is no such integer", func(g *gunner) shot {
		return g.command().set("timestampMs", g.pick("-1", "-0", "0.5", "1e12", "1E3", "1700000000000.0",
			"1e400", "-1e-400", "-9223372036854775808")).invalid(badField)
	}},
	{"a timestamp far from the clock", func(g *gunner) shot {
		return g.command().set("timestampMs", g.pick("0", "1", "946684799999", fmt.Sprint(g.now.Unix()), fmt.Sprint(g.now.UnixMicro()), fmt.Sprint(g.now.UnixNano()),
			fmt.Sprint(g.now.Add(25*time.Hour).UnixMilli()), "9007199254740991", "9007199254740992", "9223372036854775808",
			"18446744073709551617", strings.Repeat("9", 5_000))).invalid(badTime)
	}},
	{"an id that is none", func(g *gunner) shot { return g.command().set("id", quote(g.alien())).invalid(badField) }},
	{"an id too long", func(g *gunner) shot {
		return g.command().set("id", quote(strings.Repeat("i", g.pickN(129, 5_000, 50_000)))).invalid(badField)
	}},
	{"a trace that is none", func(g *gunner) shot {
		return g.command().set(g.pick("correlationId", "causationId"), quote(g.alien())).invalid(badField)
	}},
	{"a trace too long", func(g *gunner) shot {
		return g.command().set(g.pick("correlationId", "causationId"), quote(strings.Repeat("c", g.pickN(129, 5_000, 50_000)))).invalid(badField)
	}},
	{"another aggregate", func(g *gunner) shot {
		return g.command().set("aggregateId", quote(g.pick("", "other", "acme", strings.Repeat("a", 5_000)))).invalid(keyMismatch)
	}},
	{"a service call that is none", func(g *gunner) shot {
		if g.IntN(3) == 0 {
			return g.command().inner("serviceCallId", quote(g.pick("*", ">", "a.>", "a/b", `a\b`, "../a", "a,b", "a;b", "$a", "{a}", "%00", "a=b", "a+b", "'", `"`))).invalid(badField)
		}
		return g.command().inner("serviceCallId", quote(g.alien())).invalid(badField)
	}},
	{"a service call too long", func(g *gunner) shot {
		return g.command().inner("serviceCallId", quote(strings.Repeat("s", g.pickN(129, 5_000, 50_000)))).invalid(badField)
	}},
}

func (g *gunner) pickN(n ...int) int { return n[g.IntN(len(n))] }

// owners spoil the tenant of a command, or claim the one of another.
var owners = []kind{
	{"no tenant", func(g *gunner) shot {
		return g.command().set("tenantId", g.pick("", "null", `""`)).nobodys(missingField)
	}},
	{"a tenant of the wrong type", func(g *gunner) shot { return g.command().set("tenantId", g.wrong(false)).nobodys(badField) }},
	{"a tenant in another case of its key", func(g *gunner) shot {
		c := g.command()
		return c.set("tenantId", "").set(g.pick("tenantID", "TenantId", "tenantid", "tenant_id"), quote(c.tenant)).nobodys(missingField)
	}},
	{"a tenant that is none", func(g *gunner) shot {
		tenant := quote(g.alien())
		return g.command().set("tenantId", tenant).inner("tenantId", tenant).nobodys(badField)
	}},
	{"a tenant that is a pattern or a path", func(g *gunner) shot {
		tenant := quote(g.pick("*", ">", "acme.>", "acme.*", "acme.dlq", "svc.acme", ".", "..", "a..b", "../acme", "a/b", "_", "_acme", "-acme", "acme.", ".acme",
			"$SYS", "$JS.API.STREAM.PURGE.svc", "_INBOX.a", "{tenant}", "acme serviceCall", "a:b", "a@b", "%2e", "acme\x00"))
		return g.command().set("tenantId", tenant).inner("tenantId", tenant).nobodys(badField)
	}},
	{"a tenant too long", func(g *gunner) shot {
		tenant := quote(strings.Repeat("t", g.pickN(65, 255, 4_096, 5_000, 50_000)))
		return g.command().set("tenantId", tenant).nobodys(badField)
	}},
	{"another tenant in the payload", func(g *gunner) shot {
		c := g.command()
		return c.inner("tenantId", quote(g.pick(c.tenant+"x", strings.ToUpper(c.tenant)+"-", c.tenant+" ", "victim", "_", "*", c.tenant+"\x00"))).invalid(tenantMismatch)
	}},
}

// times are due times that are none.
var times = []kind{
	{"a year out of range", func(g *gunner) shot {
		return g.due(g.pick("9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1999-12-31T23:59:59.999Z",
			"2201-01-01T00:00:00Z", "2200-12-31T23:59:59.9999Z", "2000-01-01T00:00:00+00:01", "9999-12-31T23:59:59-14:00", "2262-04-12T00:00:00Z"))
	}},
	{"a year of another form", func(g *gunner) shot {
		return g.due(g.pick("10000-01-01T00:00:00Z", "-0001-01-01T00:00:00Z", "+2030-01-01T00:00:00Z", "-2030-01-01T00:00:00Z", "30-01-01T00:00:00Z",
			"02030-01-01T00:00:00Z", "٢٠٣٠-01-01T00:00:00Z", "２０３０-01-01T00:00:00Z", strings.Repeat("9", 5_000)+"-01-01T00:00:00Z"))
	}},
	{"no such day or hour", func(g *gunner) shot {
		return g.due(g.pick("2030-02-30T12:00:00Z", "2027-02-29T12:00:00Z", "2100-02-29T12:00:00Z", "2030-00-01T12:00:00Z", "2030-13-01T12:00:00Z", "2030-04-31T12:00:00Z",
			"2030-01-00T12:00:00Z", "2030-01-31T24:00:00Z", "2030-01-31T25:00:00Z", "2030-01-31T12:60:00Z", "2030-01-31T12:00:61Z", "2030-01-31T99:99:99Z"))
	}},
	{"a leap second", func(g *gunner) shot {
		return g.due(g.pick("2016-12-31T23:59:60Z", "2030-06-30T23:59:60Z", "2030-06-30T23:59:60.5Z", "2017-01-01T00:59:60+01:00"))
	}},
	{"a zone out of range", func(g *gunner) shot {
		return g.due("2030-01-31T12:00:00" + g.pick("+14:01", "-14:01", "+15:00", "+24:00", "-99:99", "+01:60", "+99:00"))
	}},
	{"a zone of another form, or none", func(g *gunner) shot {
		return g.due("2030-01-31T12:00:00" + g.pick("", "+01", "+0100", "+1:00", "\u221201:00", "ZZ", "Z+01:00", " Z", "UTC", "[Europe/Berlin]", "Z[UTC]", "+01:00:00", "CET", "+", "z ", "+-1:00"))
	}},
	{"a fraction of another form", func(g *gunner) shot {
		return g.due("2030-01-31T12:00:00" + g.pick(",5Z", ".Z", ".-1Z", ".5.5Z", ".5e3Z", ". 5Z", ".\u0665Z", ",Z"))
	}},
	{"another way to write a time", func(g *gunner) shot {
		return g.due(g.pick("", "now", "tomorrow", "1900000000000", "2030-01-31", "2030-01-31 12:00:00Z", "2030-01-31T12:00Z", "20300131T120000Z", "2030-W05-4T12:00:00Z",
			"2030-031T12:00:00Z", "2030-1-31T12:00:00Z", "31.01.2030 12:00", "Thu, 31 Jan 2030 12:00:00 GMT", " 2030-01-31T12:00:00Z", "2030-01-31T12:00:00Z\n", "P1D", "PT5S",
			"2030/01/31T12:00:00Z", "2030-01-31T12:00:00Z\r\nNats-Rollup: all", "2030-01-31t12:00:00z\x00", "2030\u201101\u201131T12:00:00Z", "\u202e2030-01-31T12:00:00Z", "T", "Z"))
	}},
	{"beyond the horizon", func(g *gunner) shot {
		due := g.now.Add(3651*24*time.Hour + time.Duration(g.Int64N(int64(160*365*24*time.Hour))))
		return g.command().inner("dueAt", quote(due.UTC().Format(time.RFC3339Nano))).invalid(beyondHorizon)
	}},
}

func (g *gunner) due(text string) shot {
	return g.command().inner("dueAt", quote(text)).invalid(badTime)
}

// others are messages that are none of the service's business, and some that
// only seem so.
var others = []kind{
	{"of another type", func(g *gunner) shot {
		return g.command().set("type", quote(g.pick("InvoicePaid", "scheduleTimer", "SCHEDULETIMER", "ScheduleTimer ", " ScheduleTimer", "ScheduleTimer\x00", "ScheduleTimer.v2",
			"DeadLetter", "dueTimeReached", "*", "\u202eremiTeludehcS", "ScheduleTimeг", strings.Repeat("t", 5_000)))).shot(want{fate: ignored})
	}},
	{"of another type, and broken otherwise", func(g *gunner) shot {
		return g.command().set("type", `"InvoicePaid"`).set(g.pick("id", "tenantId", "timestampMs", "payload2"), g.pick("null", "[]", "-1", `"\u0000"`)).shot(want{fate: ignored})
	}},
	{"a CloudEvent", func(g *gunner) shot {
		return shot{body: fmt.Appendf(nil, `{"specversion":"1.0","id":"%d","source":"/a","type":"com.example.timer","data":{"tenantId":"acme"}}`, g.Int()), want: want{fate: ignored}}
	}},
	{"an event sent as a command", func(g *gunner) shot {
		c := g.command()
		return c.set("type", `"DueTimeReached"`).set("aggregateId", quote(c.call)).inner("reachedAt", quote("2030-01-31T12:00:00.000Z")).shot(want{fate: ignored})
	}},
	{"a broken event sent as a command", func(g *gunner) shot {
		c := g.command().set("type", `"DueTimeReached"`)
		if g.IntN(2) == 0 {
			return c.inner("reachedAt", quote("2030-01-31T12:00:00.000Z")).invalid(missingField) // no aggregateId
		}
		return c.set("aggregateId", quote(c.call)).invalid(missingField)
	}},
	{"an empty object", func(*gunner) shot { return junk(missingField, "{}") }},
	{"an answer of the broker", func(g *gunner) shot { return junk(missingField, fmt.Sprintf(`{"stream":"svc","seq":%d}`, g.IntN(1e6))) }},
}
