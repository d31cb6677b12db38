package poison_test

import (
	"fmt"
	"strings"
)

// alien returns a text that is no identifier of any kind.
func (g *gunner) alien() string {
	return g.pick(" ", "a b", "a\r\nb", "a\x00", "\x00", "a\tb", "\x7f", "é", "аcme", "ａｃｍｅ", "\u202eemca", "a\u200db", "a\u200b", "\ufeffa", "世界", "💥",
		"acme\r\nPUB svc.acme.serviceCall 2\r\n{}", "a\u2028b", "a\u0085", "\u00a0", "a ", " a", "a\n")
}

// wrong returns a JSON value that is no string.
func (g *gunner) wrong() string {
	return g.pick("0", "7", "-1", "1.5", "1e400", "true", "false", "{}", "[]", `["acme"]`, `{"acme":"acme"}`)
}

func (g *gunner) pickN(n ...int) int { return n[g.IntN(len(n))] }

// owners spoil the tenant of a command, or claim the one of another.
var owners = []kind{
	{"no tenant", func(g *gunner) shot {
		return g.command().set("tenantId", g.pick("", "null", `""`)).nobodys(missingField)
	}},
	{"a tenant of the wrong type", func(g *gunner) shot { return g.command().set("tenantId", g.wrong()).nobodys(badField) }},
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
