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
	return g.numbered(func() history.Command {
		t := g.newTimer()
		t.newest = history.Version{TimestampMS: now.UnixMilli(), ID: g.id()}
		if n%canceled == canceled-1 {
			return g.cancellation(t.Key, t.newest, "the last, before it is asked for")
		}
		return g.remember(t, g.command(t.Key, t.newest, due, "the last"))
	})
}

// LimitedTenant is a tenant of which LiveLimit timers may wait.
const (
	LimitedTenant = "limited"
	LiveLimit     = 100
)

// Waiting makes up a command for a new timer of [LimitedTenant], due at a time.
func (g *Generator) Waiting(now, due time.Time) history.Command {
	return g.numbered(func() history.Command {
		key := history.Key{Tenant: LimitedTenant, Call: fmt.Sprintf("sc-%d", g.made)}
		return g.command(key, history.Version{TimestampMS: now.UnixMilli(), ID: g.id()}, due, "over the quota")
	})
}

// Invalid makes up a poison message.
func (g *Generator) Invalid(now time.Time) history.Command {
	return g.numbered(func() history.Command { return g.poison(now) })
}
