package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// A comparison is what a database and a broker know of each other when a service starts.
type comparison struct {
	timer.Noted
	logs []broker.Log
}

// older returns why the database has to be recovered, or "". What the broker has as acked
// above Observed may also be dead letters: then a recovery changes nothing.
func (c comparison) older() string {
	if len(c.Positions) == 0 && !c.Empty { // of a version that noted none
		return ""
	}
	for _, l := range c.logs {
		if seen := c.at(l.Name).Observed; l.Acked > seen {
			if c.Empty {
				return fmt.Sprintf("it is empty, and commands of %s were acked up to %d", l.Name, l.Acked)
			}
			return fmt.Sprintf("it is older than the broker knows: it has seen %s up to %d, commands were acked up to %d", l.Name, seen, l.Acked)
		}
	}
	return ""
}

// pending returns how many commands were delivered and not acked.
func (c comparison) pending() (n int64) {
	for _, l := range c.logs {
		n += l.Pending
	}
	return n
}

// at returns the position that is noted of a log.
func (c comparison) at(log string) timer.Position {
	if i := slices.IndexFunc(c.Positions, func(p timer.Position) bool { return p.Log == log }); i >= 0 {
		return c.Positions[i]
	}
	return timer.Position{Log: log}
}

// log returns the log with a name.
func (c comparison) log(name string) (broker.Log, bool) {
	i := slices.IndexFunc(c.logs, func(l broker.Log) bool { return l.Name == name })
	if i < 0 {
		return broker.Log{}, false
	}
	return c.logs[i], true
}

// remade reports whether the broker has another log in place of the one with a name.
func (c comparison) remade(name string) bool {
	prefix, _, _ := strings.Cut(name, "@")
	_, found := c.log(name)
	return !found && slices.ContainsFunc(c.logs, func(l broker.Log) bool { return strings.HasPrefix(l.Name, prefix+"@") })
}

// ahead returns how many numbers of the logs are left, if each was read up to a number.
func (c comparison) ahead(read map[string]int64) (n int64) {
	for _, l := range c.logs {
		n += max(0, l.Delivered-max(c.at(l.Name).Committed, read[l.Name]))
	}
	return n
}

// none returns positions of the logs at which nothing was read.
func (c comparison) none() (all []timer.Position) {
	for _, l := range c.logs {
		all = append(all, timer.Position{Log: l.Name})
	}
	return all
}

// ends returns the positions after a recovery, with those of logs that events were
// read of.
func (c comparison) ends(events map[string]int64) []timer.Position {
	all := make(map[string]timer.Position)
	for _, p := range c.Positions {
		all[p.Log] = p
	}
	for log, number := range events {
		all[log] = timer.Position{Log: log, Committed: all[log].Committed, Observed: max(all[log].Observed, number)}
	}
	for _, l := range c.logs {
		all[l.Name] = timer.Position{Log: l.Name, Committed: l.Delivered, Observed: l.Last}
	}
	return slices.Collect(maps.Values(all))
}

// inFlight is how many numbers of a log an event may be behind the highest that was seen,
// at most, while it is published and not deleted from the outbox yet: two windows of the
// forwarder, and what others publish meanwhile.
const inFlight = 20_000

// withOutbox returns positions behind which all events stand that may still be in the
// outbox of a copy though the broker has them: they would be published again.
func (c comparison) withOutbox() (from []timer.Position) {
	for _, p := range c.Positions {
		p.Observed = max(0, p.Observed-inFlight)
		from = append(from, p)
	}
	return from
}
