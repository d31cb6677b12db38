package poison_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

const commandsTopic = "timer.commands"

// A shot is a message, and what must become of it: see [history.Kind]. Its note is the kind of
// hostility.
type shot struct {
	history.Sent

	reason    string     // of the dead letter
	replays   int        // that the dead letter names
	trace     string     // of the event
	subject   string     // default timer.commands
	header    string     // for NATS: as on the wire, with the line breaks; empty for none
	table     amqp.Table // for RabbitMQ: headers
	refusable bool       // the broker may refuse it; then nothing may come of it
}

// spoiled is a body that must become a dead letter of a tenant; "_" has those of no tenant.
func spoiled(tenant, reason string, body []byte) shot {
	return shot{reason: reason, Sent: history.Sent{Command: history.Command{
		Kind: history.Poison, DeadLetterTopics: []string{history.DeadLettersTopic(tenant)}, Body: body,
	}}}
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

// invalid sends the command, which is spoiled but names its tenant.
func (c *command) invalid(reason string) shot { return spoiled(c.tenant, reason, c.Plain()) }

// nobodys sends the command, which is spoiled and names no valid tenant.
func (c *command) nobodys(reason string) shot { return spoiled("_", reason, c.Plain()) }

// good sends the command, which is valid.
func (c *command) good() shot {
	return shot{Sent: history.Sent{Command: history.Command{
		Kind: history.Schedule, Key: history.Key{Tenant: c.tenant, Call: c.call}, DueAt: c.due, Correlation: c.corr, Body: c.Plain(),
	}}}
}

// foreign sends the command, which is none of the service's business now.
func (c *command) foreign() shot {
	return shot{Sent: history.Sent{Command: history.Command{Kind: history.Foreign, Body: c.Plain()}}}
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

func newGunner(seed uint64, name string, headers []kind) *gunner {
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

// any returns a valid command or an invalid one, with no correlation of its own
// so that a header may give one.
func (g *gunner) any() shot {
	c := g.command().set("correlationId", "")
	c.corr = ""
	if g.IntN(2) == 0 {
		return c.good()
	}
	return c.inner("dueAt", `"soon"`).invalid(badTime)
}

// pick returns one of some texts.
func (g *gunner) pick(texts ...string) string { return texts[g.IntN(len(texts))] }

// hostile makes up one hostile message: of all kinds in turn.
func (g *gunner) hostile(made int) shot {
	if len(g.next) > 0 {
		s := g.next[0]
		g.next = g.next[1:]
		return s
	}
	lists := [][]kind{bodies, owners, g.headers, others}
	kinds := lists[made%len(lists)]
	k := kinds[made/len(lists)%len(kinds)]
	if made%1_000 == 0 {
		k = huge
	}
	s := k.make(g)
	s.Note = k.name
	return s
}
