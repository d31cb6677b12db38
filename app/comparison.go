package app

import (
	"maps"
	"slices"
	"strings"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// A comparison holds the positions of the broker's logs when a service starts: as the database
// has noted them, and as the broker has them.
type comparison struct {
	empty bool                      // the database is new
	noted map[string]timer.Position // by log: how much of it is in the database
	logs  map[string]broker.Log     // by name: the logs of commands
}

func newComparison(in timer.Noted, logs []broker.Log) comparison {
	c := comparison{in.Empty, make(map[string]timer.Position), make(map[string]broker.Log)}
	for _, p := range in.Positions {
		c.noted[p.Log] = p
	}
	for _, l := range logs {
		c.logs[l.Name] = l
	}
	return c
}

// acked returns the sum of the numbers up to which commands were acked.
func (c comparison) acked() (n int64) {
	for _, l := range c.logs {
		n += l.Acked
	}
	return n
}

// pending returns how many commands were delivered and not acked.
func (c comparison) pending() (n int64) {
	for _, l := range c.logs {
		n += l.Pending
	}
	return n
}

// ahead returns how many numbers of the logs are left of which commands are still to be read.
func (c comparison) ahead() (n int64) {
	for name, l := range c.logs {
		n += max(0, l.Delivered-c.noted[name].Committed)
	}
	return n
}

// remade reports whether the broker has another log in place of the one with a name.
func (c comparison) remade(name string) bool {
	prefix, _, _ := strings.Cut(name, "@")
	_, found := c.logs[name]
	return !found && slices.ContainsFunc(slices.Collect(maps.Keys(c.logs)), func(l string) bool { return strings.HasPrefix(l, prefix+"@") })
}

// positions returns the positions that are noted.
func (c comparison) positions() []timer.Position { return slices.Collect(maps.Values(c.noted)) }

// unseen returns positions behind which everything stands that the database never saw.
func (c comparison) unseen() (from []timer.Position) {
	for _, p := range c.noted {
		p.Committed = max(p.Committed, p.Observed)
		from = append(from, p)
	}
	return from
}

// inFlight is how many numbers of a log an event may be behind the highest that was seen,
// at most, while it is published and not deleted from the outbox yet: two windows of the
// forwarder, and what others publish meanwhile.
const inFlight = 20_000

// unread returns positions behind which everything stands that a recovery has to read. Among
// that are all events that may still be in the outbox of a copy though the broker has them:
// they would be published again.
func (c comparison) unread() (from []timer.Position) {
	for _, p := range c.noted {
		p.Observed = max(0, p.Observed-inFlight)
		from = append(from, p)
	}
	return from
}

// begin notes that nothing was read of logs that are not noted: without any position, a
// database that is not empty counts as complete.
func (c comparison) begin() {
	for name := range c.logs {
		if _, known := c.noted[name]; !known {
			c.noted[name] = timer.Position{Log: name}
		}
	}
}

// read notes that a batch was read: up to which command, or as the highest that was seen.
func (c comparison) read(kind broker.Kind, batch []broker.Stored) {
	for _, m := range batch {
		p := c.noted[m.Log]
		if p.Log = m.Log; kind == broker.Commands {
			p.Committed = max(p.Committed, m.Number)
		} else {
			p.Observed = max(p.Observed, m.Number)
		}
		c.noted[m.Log] = p
	}
}

// end notes that all logs of commands were read.
func (c comparison) end() {
	for name, l := range c.logs {
		c.noted[name] = timer.Position{Log: name, Committed: l.Delivered, Observed: l.Last}
	}
}
