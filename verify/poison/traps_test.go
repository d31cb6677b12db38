package poison_test

import (
	"fmt"
	"strings"
	"time"
)

// traps are valid commands that seem hostile. A service that refuses them is
// too strict, and one that misreads them fires the wrong timer.
var traps = []kind{
	{"valid: keys in another case beside the right ones", func(g *gunner) shot {
		return g.command().first("TenantId", `"victim"`).again("TYPE", `"CancelTimer"`).again("ID", "null").inner("DueAt", "7").good()
	}},
	{"valid: unknown fields", func(g *gunner) shot {
		return g.command().set("schemaVersion", g.pick("2", "null", `"9.9"`, "-1e400", "[]", `{"tenantId":"victim"}`)).inner("note", quote(g.alien())).
			set("__proto__", `{"tenantId":"victim"}`).good()
	}},
	{"valid: as deep as it may be", func(g *gunner) shot {
		return g.command().set("note", strings.Repeat("[", 15)+strings.Repeat("]", 15)).good()
	}},
	{"valid: as large as it may be", func(g *gunner) shot { return g.padded(maxBytes).good() }},
	{"valid: as long as names may be", func(g *gunner) shot {
		c := g.command()
		c.call += strings.Repeat(".", 128-len(c.call))
		c.corr = strings.Repeat("~", 128)
		return c.inner("serviceCallId", quote(c.call)).set("aggregateId", quote(c.call)).set("correlationId", quote(c.corr)).
			set("id", quote(c.id+strings.Repeat("!", 128-len(c.id)))).good()
	}},
	{"valid: odd names", func(g *gunner) shot {
		c := g.command()
		c.call = g.pick("..", ".", "-", ":", "_", "") + c.call + g.pick("..", "...", "--", "::", ".dlq")
		c.corr = g.pick("*", ">", "$JS.API", `"\`, "';--", "%0d%0a", "{{.}}", "<script>", "NaN", "null", "-1")
		return c.inner("serviceCallId", quote(c.call)).set("correlationId", quote(c.corr)).set("id", quote(c.id+g.pick("*", ">", ".", `\`, `"`, "/../"))).good()
	}},
	{"valid: everything escaped", func(g *gunner) shot {
		c := g.command()
		for i := range c.top {
			c.top[i].name = escape(c.top[i].name)
		}
		for i := range c.payload {
			c.payload[i].name, c.payload[i].value = escape(c.payload[i].name), `"`+escape(strings.Trim(c.payload[i].value, `"`))+`"`
		}
		return c.good()
	}},
	{"valid: first and last timestamp", func(g *gunner) shot {
		return g.command().set("timestampMs", g.pick("946684800000", fmt.Sprint(g.now.Add(23*time.Hour).UnixMilli()))).good()
	}},
	{"valid: a time to the nanosecond and beyond", func(g *gunner) shot {
		c := g.command()
		text := c.due.Format("2006-01-02T15:04:05.000") + g.pick("000001", "999999", "000000000000000001", "9"+strings.Repeat("0", 5_000))
		c.due = c.due.Add(time.Millisecond)
		return c.inner("dueAt", quote(text+"Z")).good()
	}},
	{"valid: a time in a zone", func(g *gunner) shot {
		c := g.command()
		minutes := g.IntN(2*14*60+1) - 14*60
		text := c.due.In(time.FixedZone("", 60*minutes)).Format("2006-01-02T15:04:05.000-07:00")
		if minutes == 0 {
			text = c.due.Format("2006-01-02T15:04:05.000") + g.pick("-00:00", "z")
		}
		return c.inner("dueAt", quote(strings.Replace(text, "T", g.pick("T", "t"), 1))).good()
	}},
	{"valid: due long ago", func(g *gunner) shot {
		c := g.command()
		c.due = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(g.Int64N(int64(20 * 365 * 24 * time.Hour)))).Truncate(time.Second)
		return c.inner("dueAt", quote(c.due.Format(time.RFC3339))).good()
	}},
	{"valid: another tenant, the same service call", func(g *gunner) shot {
		c := g.command()
		c.call = "shared"
		c.tenant = strings.TrimLeft(c.id, "-_")
		return c.set("tenantId", quote(c.tenant)).inner("tenantId", quote(c.tenant)).inner("serviceCallId", `"shared"`).good()
	}},
}

// escape writes each character of a text in ASCII as \u00xx.
func escape(s string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteString(`\u00`)
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}
