package traffic

import (
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// Last makes up the nth of some commands that are the last before a fault, and that are all for
// new timers. Each eighth one cancels a timer before it is asked for, the others are due at a
// time.
func (g *Generator) Last(now, due time.Time, n int) history.Command {
	const canceled = 8
	g.made++
	t := g.newTimer()
	t.newest = history.Version{TimestampMS: now.UnixMilli(), ID: g.id()}
	var c history.Command
	if n%canceled == canceled-1 {
		c = g.cancellation(t.Key, t.newest, "the last, before it is asked for")
	} else {
		c = g.remember(t, g.command(t.Key, t.newest, due, "the last"))
	}
	c.DedupeID = fmt.Sprintf("crash-%d", g.made)
	return c
}

// LimitedTenant is a tenant of which LiveLimit timers may wait.
const (
	LimitedTenant = "limited"
	LiveLimit     = 100
)

// Waiting makes up a command for a new timer of [LimitedTenant], due at a time.
func (g *Generator) Waiting(now, due time.Time) history.Command {
	g.made++
	t := &timer{Key: history.Key{Tenant: LimitedTenant, Call: fmt.Sprintf("sc-%d", g.made)}, newest: history.Version{TimestampMS: now.UnixMilli(), ID: g.id()}}
	c := g.command(t.Key, t.newest, due, "over the quota")
	c.DedupeID = fmt.Sprintf("crash-%d", g.made)
	return c
}

// Invalid makes up a poison message.
func (g *Generator) Invalid(now time.Time) history.Command {
	g.made++
	c := g.poison(now)
	c.DedupeID = fmt.Sprintf("crash-%d", g.made)
	return c
}
