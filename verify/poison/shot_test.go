package poison_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

const commandsTopic = "timer.commands"

// A fate is what must become of a message.
type fate int

const (
	deadLettered fate = iota // one dead letter only
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
	subject    string     // default timer.commands
	header     string     // for NATS: as on the wire, with the line breaks; empty for none
	table      amqp.Table // for RabbitMQ: headers
	body       []byte
	want       want
	refusable  bool // the broker may refuse it; then nothing may come of it
	overlooked bool // the broker may not even answer
}

// A command is a ScheduleTimer in the making, valid unless it is spoiled.
type command struct {
	*traffic.Body
	tenant, call, id, corr string
	due                    time.Time
}

var quote = traffic.Quote

func (c *command) set(name, value string) *command { c.Set(name, value); return c }

func (c *command) inner(name, value string) *command { c.SetPayload(name, value); return c }

// first puts a field before all others.
func (c *command) first(name, value string) *command {
	c.Envelope = append([]traffic.Field{{Name: name, Value: value}}, c.Envelope...)
	return c
}

// again adds a field whether or not it is there.
func (c *command) again(name, value string) *command {
	c.Envelope = append(c.Envelope, traffic.Field{Name: name, Value: value})
	return c
}

// shot sends the command as it is.
func (c *command) shot(w want) shot { return shot{body: c.Plain(), want: w} }

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

	headers []kind // hostile headers of the broker
}

func newGunner(seed uint64, name string) *gunner {
	stream := uint64(0)
	for _, c := range []byte(name) {
		stream = stream*31 + uint64(c)
	}
	return &gunner{Rand: rand.New(rand.NewPCG(seed, stream)), name: name, headers: headers}
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
	c.Body = traffic.NewBody("ScheduleTimer", c.tenant, c.call, c.id, g.now.UnixMilli()).SetPayload("dueAt", quote(c.due.Format("2006-01-02T15:04:05.000Z")))
	if g.IntN(2) == 0 {
		c.corr = fmt.Sprintf("trace-%d", g.made)
		c.set("correlationId", quote(c.corr))
	}
	return c
}

// pick returns one of some texts.
func (g *gunner) pick(texts ...string) string { return texts[g.IntN(len(texts))] }
