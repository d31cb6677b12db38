package poison_test

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// A kind is one way of being hostile. What becomes of each wrong field, time and
// attribute of a CloudEvent is shown in package envelope, without a broker.
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
	beyondHorizon  = "beyond_horizon"
)

const maxBytes = 64 << 10

// bodies are bodies that are no command at all.
var bodies = []kind{
	{"text", func(g *gunner) shot { return junk(notJSON, fmt.Sprintf("hello %d", g.Int())) }},
	{"nothing, or space", func(g *gunner) shot { return junk(notJSON, g.pick("", " ", "\r\n\t", strings.Repeat(" ", 5_000))) }},
	{"a JSON value that is no object", func(g *gunner) shot {
		return junk(notJSON, g.pick("null", "true", "false", "0", "-1e9", `"text"`, "[]", "[{}]", "[1,2]"))
	}},
	{"a command in an array", func(g *gunner) shot { return junk(notJSON, "["+g.command().String()+"]") }},
	{"a command in a string", func(g *gunner) shot { return junk(notJSON, quote(g.command().String())) }},
	{"other formats", func(g *gunner) shot {
		return junk(notJSON, g.pick("<command/>", "id: 1\ntype: ScheduleTimer", "id=1&type=ScheduleTimer", "$4\r\nPING\r\n",
			"PUB svc.acme.serviceCall 2\r\n{}\r\n", "GET / HTTP/1.1\r\n\r\n", "'; DROP TABLE timer_schedules; --", "${jndi:ldap://x}", "{{.}}"))
	}},
	{"binary formats", func(g *gunner) shot {
		return junk(notUTF8, g.pick("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", "\x0a\x03abc\x12\xff\x01", "\x84\xa2id\xa1x", "\xa2bid\x01",
			"Obj\x01\x04\xff\x80", "\x80\x04\x95.", "\xac\xed\x00\x05", "\x28\xb5\x2f\xfd"))
	}},
	{"random bytes", func(g *gunner) shot {
		b := make([]byte, 1+g.IntN(2_000))
		for i := range b {
			b[i] = byte(g.Uint32())
		}
		return junk(notUTF8, "\xff"+string(b))
	}},
	{"UTF-16", func(g *gunner) shot {
		var s strings.Builder
		for _, u := range utf16.Encode([]rune(g.command().String())) {
			s.Write([]byte{byte(u), byte(u >> 8)})
		}
		if g.IntN(2) == 0 {
			return junk(notUTF8, "\xff\xfe"+s.String())
		}
		return junk(notJSON, s.String())
	}},
	{"brackets without end", func(g *gunner) shot {
		n := 1 + g.IntN(2_000)
		switch open := g.pick(`{`, `{"`, `{"a"`, `{"a",`, `{]`); open {
		case `{]`: // which closes what it opens
			return unended(strings.Repeat(open, n), 1)
		case `{"`: // every other one is in a string
			return unended(strings.Repeat(open, n), (n+1)/2)
		default:
			return unended(strings.Repeat(open, n), n)
		}
	}},
	{"deep brackets without end", func(g *gunner) shot {
		n := 1 + g.IntN(9_000)
		return unended(strings.Repeat("[", n), n)
	}},
	{"deep keys without end", func(g *gunner) shot { return junk(tooDeep, strings.Repeat(`{"a":`, 100+g.IntN(9_000))) }},
	{"large garbage", func(g *gunner) shot {
		return junk(tooLarge, strings.Repeat(g.pick("x", "[", "\xff", "\x00", `{"a":`, "{", `"`, `\u`), maxBytes+1+g.IntN(10_000)))
	}},
}

// junk is a body that names no tenant.
func junk(reason, body string) shot {
	return shot{body: []byte(body), want: want{tenant: "_", reason: reason}}
}

// syntax spoils the JSON of a command.
var syntax = []kind{
	{"cut off", func(g *gunner) shot {
		c := g.command()
		text := c.String()
		tenant := quote(c.tenant)
		known := strings.Index(text, `"tenantId":`+tenant) + len(`"tenantId":`+tenant)
		n := g.IntN(len(text))
		if n < known {
			return junk(notJSON, text[:n])
		}
		return shot{body: []byte(text[:n]), want: want{tenant: c.tenant, reason: notJSON}}
	}},
	{"something behind", func(g *gunner) shot {
		c := g.command()
		behind := g.pick("x", ",", "}", "]", "\x00", "\u00a0", "\ufeff", "{}", "null", "//", "\x1a", g.command().String())
		return shot{body: []byte(c.String() + behind), want: want{tenant: c.tenant, reason: notJSON}}
	}},
	{"something before", func(g *gunner) shot {
		return junk(notJSON, g.pick("x", ",", "\x00", "/**/", "//\n", ")]}',\n", "data: ", "null", "\u00a0")+g.command().String())
	}},
	{"a byte order mark", func(g *gunner) shot {
		c := g.command()
		return shot{body: []byte("\ufeff" + c.String()), want: want{tenant: c.tenant, reason: notJSON}}
	}},
	{"broken UTF-8", func(g *gunner) shot {
		broken := g.pick("\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3", "\xe2\x82", "\x80", "\xf8\x88\x80\x80\x80", "\xfe")
		return g.command().set(g.pick("correlationId", "note", "causationId"), `"a`+broken+`b"`).invalid(notUTF8)
	}},
	{"broken UTF-8 in the tenant", func(g *gunner) shot {
		c := g.command()
		tenant := `"` + c.tenant + g.pick("\xff", "\xc0\xaf", "\xed\xa0\x80") + `"`
		return c.set("tenantId", tenant).inner("tenantId", tenant).nobodys(notUTF8)
	}},
	{"half a surrogate pair", func(g *gunner) shot {
		return g.command().set("note", g.pick(`"\ud800"`, `"\udfff"`, `"\udc00\ud800"`, `"\ud800\u0041"`, `"\ud83d"`)).invalid(notJSON)
	}},
	{"half a surrogate pair in the tenant", func(g *gunner) shot {
		c := g.command()
		return c.set("tenantId", `"`+c.tenant+`\ud800"`).inner("tenantId", `"`+c.tenant+`\ud800"`).nobodys(notJSON)
	}},
	{"control characters in a string", func(g *gunner) shot {
		return g.command().set("note", `"a`+g.pick("\x00", "\x01", "\n", "\r", "\t", "\x1f", "\x08")+`b"`).invalid(notJSON)
	}},
	{"unknown escapes", func(g *gunner) shot {
		return g.command().set("note", g.pick(`"\x41"`, `"\0"`, `"\u12"`, `"\uzzzz"`, `"\'"`, `"\U00000041"`, `"\`)).invalid(notJSON)
	}},
	{"what is no JSON value", func(g *gunner) shot {
		return g.command().set(g.pick("note", "timestampMs", "correlationId"), g.pick("NaN", "Infinity", "-Infinity", "undefined", "None",
			"True", "nul", "nulll", "0x10", "+1", ".5", "1.", "01", "-", "--1", "1e", "1e+", "1_000", "'x'", "x", "1 2", "[1,]", "{,}", "[,1]",
			`{"a"}`, `{"a":}`, `{a:1}`, `{1:1}`, "٣", "１", "$", "`x`", "#")).invalid(notJSON)
	}},
	{"a key twice", func(g *gunner) shot {
		c := g.command()
		switch g.IntN(6) {
		case 0:
			return c.again("id", `"other"`).invalid(duplicateKey)
		case 1:
			return c.again(`\u0074ype`, `"CancelTimer"`).invalid(duplicateKey)
		case 2:
			c.payload = append(c.payload, field{g.pick("serviceCallId", "dueAt", "tenantId", `due\u0041t`), `"other"`})
			return c.invalid(duplicateKey)
		case 3:
			return c.again("payload", "{}").invalid(duplicateKey)
		case 4:
			return c.set("note", `{"x":{"y":1,"y":1}}`).invalid(duplicateKey)
		}
		return c.first("timestampMs", "1").invalid(duplicateKey)
	}},
	{"two tenants", func(g *gunner) shot {
		c := g.command()
		key, tenant := g.pick("tenantId", `tenant\u0049d`, `\u0074\u0065\u006e\u0061\u006e\u0074\u0049\u0064`), quote(g.tenant())
		if g.IntN(2) == 0 {
			return c.first(key, tenant).nobodys(duplicateKey)
		}
		return c.again(key, tenant).nobodys(duplicateKey)
	}},
	{"too deep", func(g *gunner) shot {
		n := 16 + g.IntN(5_000)
		if g.IntN(2) == 0 {
			return g.command().set("note", strings.Repeat("[", n)+strings.Repeat("]", n)).invalid(tooDeep)
		}
		return g.command().set("note", strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n)).invalid(tooDeep)
	}},
	{"a byte too large", func(g *gunner) shot { return g.padded(maxBytes + 1).invalid(tooLarge) }},
	{"much too large", func(g *gunner) shot { return g.padded(maxBytes + 2 + g.IntN(400_000)).invalid(tooLarge) }},
	{"too large, with the tenant far behind", func(g *gunner) shot {
		return g.command().first("note", quote(strings.Repeat("x", maxBytes))).nobodys(tooLarge)
	}},
}

// huge are the largest bodies. They are few.
var huge = []kind{
	{"5 MB of brackets", func(*gunner) shot { return junk(tooLarge, strings.Repeat("[", 5_000_000)) }},
	{"5 MB of keys", func(*gunner) shot { return junk(tooLarge, strings.Repeat(`{"a":`, 1_000_000)) }},
	{"5 MB of brackets in a command", func(g *gunner) shot {
		return g.command().set("note", strings.Repeat("[", 2_500_000)+strings.Repeat("]", 2_500_000)).invalid(tooLarge)
	}},
}

// padded returns a command whose text has so many bytes.
func (g *gunner) padded(size int) *command {
	c := g.command().set("note", `""`)
	return c.set("note", quote(strings.Repeat("x", size-len(c.String()))))
}

// unended is a body that opens so many brackets and is no JSON: where it is too
// deep as well, that is the reason.
func unended(body string, depth int) shot {
	if depth > 16 {
		return junk(tooDeep, body)
	}
	return junk(notJSON, body)
}
