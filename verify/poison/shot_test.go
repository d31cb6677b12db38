package poison_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

const commandsTopic = "timer.commands"

// A fate is what must become of a message.
type fate int

const (
	deadLettered fate = iota // one dead letter, nothing else
	ignored                  // nothing at all: it is none of the service's
	fires                    // one event
)

// A want is a fate with its particulars.
type want struct {
	fate
	tenant      string    // whose dead letters or events; "_" for those of no tenant
	reason      string    // of the dead letter
	replays     int       // that the dead letter names
	call        string    // of the event
	dueAt       time.Time // of the event
	correlation string    // of the event
	trace       string    // of the event
}

// A shot is a message with what must become of it.
type shot struct {
	kind       string
	subject    string // default timer.commands
	header     string // as on the wire, with the line breaks; empty for none
	body       []byte
	want       want
	refusable  bool // the broker may refuse it; then nothing may come of it
	overlooked bool // the broker may not even answer
}

// A field is a name and a JSON value, both as they are written.
type field struct{ name, value string }

// A command is a ScheduleTimer in the making, valid unless it is spoiled.
type command struct {
	top, payload           []field
	tenant, call, id, corr string
	due                    time.Time
}

// quote writes a JSON string in ASCII.
func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("quote %q: %v", s, err))
	}
	return string(text)
}

// set gives a field a value, as JSON; an empty one removes it.
func set(fields []field, name, value string) []field {
	for i := range fields {
		if fields[i].name != name {
			continue
		}
		if value == "" {
			return append(fields[:i:i], fields[i+1:]...)
		}
		fields[i].value = value
		return fields
	}
	if value == "" {
		return fields
	}
	return append(fields, field{name, value})
}

func (c *command) set(name, value string) *command { c.top = set(c.top, name, value); return c }

func (c *command) inner(name, value string) *command {
	c.payload = set(c.payload, name, value)
	return c
}

// first puts a field before all others.
func (c *command) first(name, value string) *command {
	c.top = append([]field{{name, value}}, c.top...)
	return c
}

// again adds a field whether or not it is there.
func (c *command) again(name, value string) *command {
	c.top = append(c.top, field{name, value})
	return c
}

func (c *command) String() string {
	top := c.top
	if c.payload != nil {
		top = append(top[:len(top):len(top)], field{"payload", object(c.payload)})
	}
	return object(top)
}

func object(fields []field) string {
	var s strings.Builder
	s.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteString(`"` + f.name + `":` + f.value) // the name may hold escapes
	}
	s.WriteByte('}')
	return s.String()
}

// shot sends the command as it is.
func (c *command) shot(w want) shot { return shot{body: []byte(c.String()), want: w} }

// invalid sends the command, which is spoiled but names its tenant.
func (c *command) invalid(reason string) shot {
	return c.shot(want{tenant: c.tenant, reason: reason})
}

// nobodys sends the command, which is spoiled and names no valid tenant.
func (c *command) nobodys(reason string) shot { return c.shot(want{tenant: "_", reason: reason}) }

// good sends the command, which is valid.
func (c *command) good() shot {
	return c.shot(want{fate: fires, tenant: c.tenant, call: c.call, dueAt: c.due, correlation: c.corr})
}

// A gunner makes up shots. It is not safe for concurrent use. The same seed
// makes the same shots at other times.
type gunner struct {
	*rand.Rand
	name string // makes keys unique
	made int
	now  time.Time
	next []shot // to be sent before any other
}

func newGunner(seed uint64, name string) *gunner {
	stream := uint64(0)
	for _, c := range []byte(name) {
		stream = stream*31 + uint64(c)
	}
	return &gunner{Rand: rand.New(rand.NewPCG(seed, stream)), name: name}
}

// tenants are shared by good and bad messages.
var tenants = [...]string{
	"acme", "Acme", "ACME", "a", "0", "x_-", "9-" + strings.Repeat("y", 62), "globex", "initech", "umbrella",
	"dlq", "timer", "svc", "serviceCall", "null", "true", "NaN", "tenant-1", "tenant-2", "tenant_2",
}

func (g *gunner) tenant() string { return tenants[g.IntN(len(tenants))] }

// command makes up a valid one that is due soon.
func (g *gunner) command() *command {
	g.made++
	c := &command{
		tenant: g.tenant(),
		call:   fmt.Sprintf("%s-%d", g.name, g.made),
		id:     fmt.Sprintf("%s-%d-%08x", g.name, g.made, g.Uint32()),
	}
	c.due = g.now.Add(200*time.Millisecond + time.Duration(g.Int64N(int64(4*time.Second)))).UTC().Truncate(time.Millisecond)
	c.top = []field{
		{"id", quote(c.id)},
		{"type", `"ScheduleTimer"`},
		{"tenantId", quote(c.tenant)},
		{"timestampMs", fmt.Sprint(g.now.UnixMilli())},
	}
	c.payload = []field{
		{"tenantId", quote(c.tenant)},
		{"serviceCallId", quote(c.call)},
		{"dueAt", quote(c.due.Format("2006-01-02T15:04:05.000Z"))},
	}
	if g.IntN(2) == 0 {
		c.corr = fmt.Sprintf("trace-%d", g.made)
		c.set("correlationId", quote(c.corr))
	}
	return c
}

// pick returns one of some texts.
func (g *gunner) pick(texts ...string) string { return texts[g.IntN(len(texts))] }
