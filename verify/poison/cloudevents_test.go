package poison_test

import (
	"time"
)

// attributes are what the fields of an envelope are called in a CloudEvent.
var attributes = map[string]string{
	"tenantId": "tenantid", "aggregateId": "subject", "correlationId": "correlationid", "causationId": "causationid",
}

// A cloud is a command in the making, as a CloudEvent: valid unless it is spoiled.
type cloud struct{ *command }

// cloud makes up one that is due soon.
func (g *gunner) cloud() cloud {
	c := g.command()
	for i, f := range c.top {
		if name, ok := attributes[f.name]; ok {
			c.top[i].name = name
		}
	}
	c.set("timestampMs", "")
	c.set("time", quote(g.now.UTC().Format(time.RFC3339Nano)))
	c.set("source", `"/poison"`)
	c.set("specversion", `"1.0"`)
	if g.IntN(2) == 0 {
		c.set("tenantid", "") // the data names it
	}
	g.Shuffle(len(c.top), func(i, j int) { c.top[i], c.top[j] = c.top[j], c.top[i] })
	return cloud{c}
}

// with sets an attribute.
func (c cloud) with(name, value string) cloud { c.set(name, value); return c }

// data returns the command with its data.
func (c cloud) data() *command {
	if c.payload != nil {
		c.set("data", object(c.payload))
		c.payload = nil
	}
	return c.command
}

// cloudEvents are CloudEvents, good and spoiled.
var cloudEvents = []kind{
	{"CloudEvent: valid", func(g *gunner) shot { return g.cloud().data().good() }},
	{"CloudEvent: null attributes", func(g *gunner) shot {
		return g.cloud().with("tenantid", "null").with("subject", "null").with("datacontenttype", "null").with("note", "null").data().good()
	}},
	{"CloudEvent: keys of an envelope that say nothing", func(g *gunner) shot {
		c := g.cloud()
		return c.with("payload", `{"tenantId":"victim","serviceCallId":"victim"}`).with("aggregateId", `"victim"`).with("timestampMs", "1").data().good()
	}},
	{"CloudEvent: of another version", func(g *gunner) shot {
		return g.cloud().with("specversion", g.pick(`"0.3"`, `"1"`, `"1.0.2"`, `"1.1"`, `" 1.0"`, `""`, "1.0", "true", "{}")).data().invalid(badField)
	}},
	{"CloudEvent: an envelope, too", func(g *gunner) shot {
		c := g.cloud()
		return c.with("tenantId", g.pick(quote(c.tenant), `"victim"`, "null", "7")).with("timestampMs", "1").data().invalid(badField)
	}},
	{"CloudEvent: no source", func(g *gunner) shot {
		return g.cloud().with("source", g.pick("", "null", `""`)).data().invalid(missingField)
	}},
	{"CloudEvent: a source that is none", func(g *gunner) shot {
		return g.cloud().with("source", g.pick(quote(g.alien()), `"/%"`, `"/%zz"`, `"/<>"`, g.wrong(false))).data().invalid(badField)
	}},
	{"CloudEvent: no time", func(g *gunner) shot { return g.cloud().with("time", g.pick("", "null")).data().invalid(missingField) }},
	{"CloudEvent: a time that is none", func(g *gunner) shot {
		return g.cloud().with("time", quote(g.pick("", "now", "2030-01-01", "2030-01-01T00:00:00", "2030-01-01 00:00:00Z", "2030-01-01T24:00:00Z", "1999-12-31T23:59:59.9999Z",
			"2201-01-01T00:00:00Z", "2030-01-01T00:00:00,5Z", "2030-02-30T00:00:00Z", "2030-01-01T00:00:00+15:00"))).data().invalid(badTime)
	}},
	{"CloudEvent: the data of another tenant", func(g *gunner) shot {
		c := g.cloud().with("tenantid", `"victim"`)
		c.tenant = "victim"
		return c.data().invalid(tenantMismatch)
	}},
	{"CloudEvent: the subject of another call", func(g *gunner) shot {
		return g.cloud().with("subject", g.pick(`"victim"`, `""`, quote(g.alien()))).data().invalid(keyMismatch)
	}},
	{"CloudEvent: data in base64", func(g *gunner) shot {
		return g.cloud().with("data_base64", g.pick(`"e30="`, `""`, `{}`)).data().invalid(badField)
	}},
	{"CloudEvent: data that is no JSON", func(g *gunner) shot {
		return g.cloud().with("datacontenttype", g.pick(`"text/plain"`, `"application/xml"`, `""`, `"json"`, `"a/b/json"`, "7")).data().invalid(badField)
	}},
	{"CloudEvent: no tenant at all", func(g *gunner) shot {
		return g.cloud().with("tenantid", "").inner("tenantId", g.pick("", "null", `""`)).cloudless().nobodys(missingField)
	}},
	{"CloudEvent: a key twice", func(g *gunner) shot {
		c := g.cloud().data()
		return c.again(g.pick("specversion", `specv\u0065rsion`, "source", "time", "id"), `"1.0"`).invalid(duplicateKey)
	}},
	{"CloudEvent: of another type", func(g *gunner) shot {
		c := g.cloud().with("type", g.pick(`"com.example.placed"`, `"scheduletimer"`)).with(g.pick("specversion", "source", "time", "subject"), g.pick("7", "{}", `""`))
		return c.data().shot(want{fate: ignored})
	}},
}

// cloudless moves the payload of a command into its data.
func (c *command) cloudless() *command { return cloud{c}.data() }
