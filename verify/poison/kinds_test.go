package poison_test

import (
	"fmt"
	"strings"
)

// A kind is one way of being hostile. What becomes of each wrong field, time, escape and
// attribute is shown in package envelope, without a broker.
type kind struct {
	name string
	make func(g *gunner) shot
}

// Reasons, as the contract spells them.
const (
	tooLarge       = "too_large"
	notUTF8        = "not_utf8"
	notJSON        = "not_json"
	tooDeep        = "too_deep"
	duplicateKey   = "duplicate_key"
	missingField   = "missing_field"
	badField       = "bad_field"
	badTime        = "bad_time"
	tenantMismatch = "tenant_mismatch"
)

const maxBytes = 64 << 10

// bodies are bodies that are no JSON, or JSON that no command may be.
var bodies = []kind{
	{"text", func(g *gunner) shot { return junk(notJSON, fmt.Sprintf("hello %d", g.Int())) }},
	{"nothing, or space", func(g *gunner) shot { return junk(notJSON, g.pick("", " ", "\r\n\t", strings.Repeat(" ", 5_000))) }},
	{"other formats", func(g *gunner) shot {
		return junk(notJSON, g.pick("<command/>", "id: 1\ntype: ScheduleTimer", "id=1&type=ScheduleTimer", "$4\r\nPING\r\n",
			"PUB svc.acme.serviceCall 2\r\n{}\r\n", "GET / HTTP/1.1\r\n\r\n", "'; DROP TABLE timer_schedules; --", "${jndi:ldap://x}", "{{.}}"))
	}},
	{"random bytes", func(g *gunner) shot {
		b := make([]byte, 1+g.IntN(2_000))
		for i := range b {
			b[i] = byte(g.Uint32())
		}
		return junk(notUTF8, "\xff"+string(b))
	}},
	{"deep brackets without end", func(g *gunner) shot { return junk(tooDeep, strings.Repeat("[", 17+g.IntN(9_000))) }},
	{"large garbage", func(g *gunner) shot {
		return junk(tooLarge, strings.Repeat(g.pick("x", "[", "\xff", "\x00", `{"a":`, "{", `"`, `\u`), maxBytes+1+g.IntN(10_000)))
	}},
	{"cut off", func(g *gunner) shot {
		c := g.command()
		text := string(c.Plain())
		tenant := quote(c.tenant)
		known := strings.Index(text, `"tenantId":`+tenant) + len(`"tenantId":`+tenant)
		n := g.IntN(len(text))
		if n < known {
			return junk(notJSON, text[:n])
		}
		return spoiled(c.tenant, notJSON, []byte(text[:n]))
	}},
	{"too deep", func(g *gunner) shot {
		n := 16 + g.IntN(5_000)
		return g.command().set("note", strings.Repeat("[", n)+strings.Repeat("]", n)).invalid(tooDeep)
	}},
	{"broken UTF-8", func(g *gunner) shot {
		broken := g.pick("\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3", "\xe2\x82", "\x80", "\xf8\x88\x80\x80\x80", "\xfe")
		return g.command().set(g.pick("correlationId", "note", "causationId"), `"a`+broken+`b"`).invalid(notUTF8)
	}},
}

// huge are the largest bodies. They are few.
var huge = kind{"5 MB of brackets", func(*gunner) shot { return junk(tooLarge, strings.Repeat("[", 5_000_000)) }}

// junk is a body that names no tenant.
func junk(reason, body string) shot {
	return spoiled("_", reason, []byte(body))
}

// owners spoil the tenant of a command, or claim the one of another.
var owners = []kind{
	{"no tenant", func(g *gunner) shot {
		return g.command().set("tenantId", g.pick("", "null", `""`)).nobodys(missingField)
	}},
	{"a tenant of the wrong type", func(g *gunner) shot {
		return g.command().set("tenantId", g.pick("7", "true", "{}", `["acme"]`, `{"acme":"acme"}`)).nobodys(badField)
	}},
	{"a tenant that is a pattern or a path", func(g *gunner) shot {
		tenant := quote(g.pick("*", ">", "acme.>", "acme.*", "acme.dlq", "svc.acme", ".", "..", "a..b", "../acme", "a/b", "_", "_acme", "-acme", "acme.", ".acme",
			"$SYS", "$JS.API.STREAM.PURGE.svc", "_INBOX.a", "{tenant}", "acme serviceCall", "a:b", "a@b", "%2e", "acme\x00", "acme\r\nPUB svc.acme.serviceCall 2\r\n{}", "аcme"))
		return g.command().set("tenantId", tenant).inner("tenantId", tenant).nobodys(badField)
	}},
	{"a tenant too long", func(g *gunner) shot {
		return g.command().set("tenantId", quote(strings.Repeat(g.pick("t", "long"), 65+g.IntN(10_000)))).nobodys(badField)
	}},
	{"another tenant in the payload", func(g *gunner) shot {
		c := g.command()
		return c.inner("tenantId", quote(g.pick(c.tenant+"x", strings.ToUpper(c.tenant)+"-", c.tenant+" ", "victim", "_", "*", c.tenant+"\x00"))).invalid(tenantMismatch)
	}},
	{"two tenants", func(g *gunner) shot {
		key, tenant := g.pick("tenantId", `tenant\u0049d`, `\u0074\u0065\u006e\u0061\u006e\u0074\u0049\u0064`), quote(g.tenant())
		if g.IntN(2) == 0 {
			return g.command().first(key, tenant).nobodys(duplicateKey)
		}
		return g.command().again(key, tenant).nobodys(duplicateKey)
	}},
	{"broken UTF-8 in the tenant", func(g *gunner) shot {
		c := g.command()
		tenant := `"` + c.tenant + g.pick("\xff", "\xc0\xaf", "\xed\xa0\x80") + `"`
		return c.set("tenantId", tenant).inner("tenantId", tenant).nobodys(notUTF8)
	}},
	{"too large, with the tenant far behind", func(g *gunner) shot {
		return g.command().first("note", quote(strings.Repeat("x", maxBytes))).nobodys(tooLarge)
	}},
}

// others are messages that are none of the service's business, and some that
// only seem so.
var others = []kind{
	{"of another type", func(g *gunner) shot {
		return g.command().set("type", quote(g.pick("InvoicePaid", "scheduleTimer", "SCHEDULETIMER", "ScheduleTimer ", "ScheduleTimer\x00", "ScheduleTimer.v2",
			"DeadLetter", "dueTimeReached", "*", "\u202eremiTeludehcS", "ScheduleTimeг", strings.Repeat("t", 5_000)))).foreign()
	}},
	{"an event sent as a command", func(g *gunner) shot {
		c := g.command()
		return c.set("type", `"DueTimeReached"`).set("aggregateId", quote(c.call)).inner("reachedAt", quote("2030-01-31T12:00:00.000Z")).foreign()
	}},
	{"an answer of the broker", func(g *gunner) shot { return junk(missingField, fmt.Sprintf(`{"stream":"svc","seq":%d}`, g.IntN(1e6))) }},
}
