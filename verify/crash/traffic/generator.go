// Package traffic makes up the commands of a crash test: what many producers,
// some of them careless and some hostile, send to the timer service. It is a
// foreign client that knows the wire contract only.
//
// The same seed and the same times make the same commands.
package traffic

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// How far ahead new timers are due.
const (
	soonest = 50 * time.Millisecond
	latest  = 5 * time.Second
)

// remembered is how many timers and commands may be picked up again.
const remembered = 1000

// A Generator makes up commands. It is not safe for concurrent use.
type Generator struct {
	rand     *rand.Rand
	tenants  []string
	made     int
	poisoned int                   // poison messages made
	timers   ring[*timer]          // newest last
	keys     map[history.Key]bool  // of all timers
	commands ring[history.Command] // valid ones
}

// A timer is the state of a key that the generator remembers.
type timer struct {
	history.Key
	newest history.Version
	dueAt  time.Time // of the newest ScheduleTimer; zero if there is none
}

// New returns a Generator of commands for a number of tenants.
func New(seed uint64, tenants int) *Generator {
	g := &Generator{rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), keys: make(map[history.Key]bool)}
	for i := range max(tenants, 1) {
		g.tenants = append(g.tenants, tenantName(i))
	}
	g.poisoned = g.rand.IntN(len(poisons)) // a short run has not all of them
	return g
}

// Tenants returns the tenants that commands of a Generator of n tenants name, and
// the tenants of [Old] and of [Generator.Waiting].
func Tenants(n int) []string {
	all := []string{oldTenant, LimitedTenant}
	for i := range max(n, 1) {
		all = append(all, tenantName(i))
	}
	return all
}

// tenantName returns names of all forms, some of which differ in case only.
func tenantName(i int) string {
	forms := [...]string{"acme", "Acme", "ACME", "a", "0", "x_-", "9-" + strings.Repeat("y", 62)}
	if i < len(forms) {
		return forms[i]
	}
	return fmt.Sprintf("tenant-%d", i)
}

// Next makes up the next command, to be sent now.
func (g *Generator) Next(now time.Time) history.Command {
	c := g.numbered(func() history.Command {
		switch p := g.rand.IntN(100); {
		case p < 15:
			return g.reschedule(now)
		case p < 23:
			return g.again(now)
		case p < 31:
			return g.stale(now)
		case p < 41:
			return g.cancel(now)
		case p < 45:
			return g.poison(now)
		case p < 46:
			return g.foreign(now)
		}
		return g.schedule(now)
	})
	if c.Kind == history.Schedule || c.Kind == history.Cancel {
		g.commands.add(c)
	}
	return c
}

// numbered makes the next command, whose number is its id for the broker.
func (g *Generator) numbered(next func() history.Command) history.Command {
	g.made++
	c := next()
	c.DedupeID = fmt.Sprintf("crash-%d", g.made)
	return c
}

// schedule makes a command for a new timer.
func (g *Generator) schedule(now time.Time) history.Command {
	t := g.newTimer()
	t.newest = history.Version{TimestampMS: now.UnixMilli(), ID: g.id()}
	due, note := now.Add(soonest+g.upTo(latest-soonest)), "new"
	if g.rand.IntN(20) == 0 {
		due, note = now.Add(-g.upTo(time.Hour)), "new, due in the past"
	}
	return g.remember(t, g.command(t.Key, t.newest, due, note))
}

// reschedule moves a timer to later or sooner.
func (g *Generator) reschedule(now time.Time) history.Command {
	t := g.pick(now)
	if t == nil {
		return g.schedule(now)
	}
	due, note := t.dueAt.Add(g.upTo(latest/2)), "to later"
	if g.rand.IntN(2) == 0 {
		due, note = now.Add(g.upTo(max(t.dueAt.Sub(now), 1))), "to sooner"
	}
	if g.rand.IntN(10) == 0 {
		due, note = t.dueAt, "to the same time"
	}
	t.newest = g.newer(t.newest, now)
	return g.remember(t, g.command(t.Key, t.newest, due, note))
}

func (g *Generator) remember(t *timer, c history.Command) history.Command {
	t.dueAt = c.DueAt
	return c
}

// again repeats a command, byte for byte.
func (g *Generator) again(now time.Time) history.Command {
	c, ok := g.commands.any(g.rand)
	if !ok {
		return g.schedule(now)
	}
	c.Note = "again: " + strings.TrimPrefix(c.Note, "again: ")
	return c
}

// stale sends a command that is older than one sent before.
func (g *Generator) stale(now time.Time) history.Command {
	t, ok := g.timers.any(g.rand)
	if !ok {
		return g.schedule(now)
	}
	v := history.Version{TimestampMS: t.newest.TimestampMS - 1 - g.rand.Int64N(5000), ID: g.id()}
	if g.rand.IntN(4) == 0 {
		v = history.Version{TimestampMS: t.newest.TimestampMS, ID: "!" + g.id()} // less than any id of a newest
	}
	if g.rand.IntN(4) == 0 {
		return g.cancellation(t.Key, v, "stale")
	}
	return g.command(t.Key, v, now.Add(g.upTo(latest)), "stale")
}

// cancel makes a command that cancels a timer, or one that does not exist yet.
func (g *Generator) cancel(now time.Time) history.Command {
	t, note := g.pick(now), "before it is due"
	switch g.rand.IntN(8) {
	case 0:
		t, note = nil, "before it is asked for"
	case 1:
		if other, ok := g.timers.any(g.rand); ok {
			t, note = other, "at any time"
		}
	}
	if t == nil {
		t, note = g.newTimer(), "before it is asked for"
		t.newest = history.Version{TimestampMS: now.UnixMilli(), ID: g.id()}
	} else {
		t.newest = g.newer(t.newest, now)
	}
	return g.cancellation(t.Key, t.newest, note)
}

// command makes a ScheduleTimer in one of the forms that producers write.
func (g *Generator) command(key history.Key, v history.Version, due time.Time, note string) history.Command {
	text, kept := dueTime(g.rand, due)
	c := history.Command{Kind: history.Schedule, Key: key, Version: v, DueAt: kept, Note: note}
	b := NewBody("ScheduleTimer", key.Tenant, key.Call, v.ID, v.TimestampMS).SetPayload("dueAt", Quote(text))
	correlation := fmt.Sprintf("cor-%d-%s", g.made, g.word(8))
	switch g.rand.IntN(10) {
	case 0: // none
	case 1:
		c.Correlation = correlation
		c.Header = map[string]string{"correlationId": correlation}
	case 2: // the body wins
		c.Correlation = correlation
		c.Header = map[string]string{"correlationId": "not-this-one"}
		b.Set("correlationId", Quote(correlation))
	default:
		c.Correlation = correlation
		b.Set("correlationId", Quote(correlation))
	}
	return g.finish(c, b)
}

func (g *Generator) cancellation(key history.Key, v history.Version, note string) history.Command {
	c := history.Command{Kind: history.Cancel, Key: key, Version: v, Note: note}
	return g.finish(c, NewBody("CancelTimer", key.Tenant, key.Call, v.ID, v.TimestampMS))
}

func (g *Generator) finish(c history.Command, b *Body) history.Command {
	if g.rand.IntN(2) == 0 {
		b.Set("aggregateId", Quote(c.Call))
	}
	if g.rand.IntN(4) == 0 {
		b.Set("causationId", Quote("because-"+g.word(6)))
	}
	c.Body = b.varied(g.rand)
	return c
}
