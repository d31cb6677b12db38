package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// A standing is what a database and a broker know of each other when a service starts.
type standing struct {
	timer.Noted
	logs []broker.Log
}

// interrupted returns that a recovery is under way, or "".
func (s standing) interrupted() string {
	if s.Recovering.IsZero() {
		return ""
	}
	return "a recovery was interrupted"
}

// lost returns why the database has to be recovered, or "". What the broker has as acked
// above Seen may also be dead letters: then a recovery changes nothing.
func (s standing) lost() string {
	if len(s.Positions) == 0 && !s.Empty { // of a version that noted none
		return ""
	}
	for _, l := range s.logs {
		if seen := s.at(l.Name).Seen; l.Acked > seen {
			if s.Empty {
				return fmt.Sprintf("it is empty, and commands of %s were acked up to %d", l.Name, l.Acked)
			}
			return fmt.Sprintf("it is older than the broker knows: it has seen %s up to %d, commands were acked up to %d", l.Name, seen, l.Acked)
		}
	}
	return ""
}

// at returns what is noted of a log.
func (s standing) at(log string) timer.Position {
	if i := slices.IndexFunc(s.Positions, func(p timer.Position) bool { return p.Log == log }); i >= 0 {
		return s.Positions[i]
	}
	return timer.Position{Log: log}
}

// log returns the log with a name.
func (s standing) log(name string) (broker.Log, bool) {
	i := slices.IndexFunc(s.logs, func(l broker.Log) bool { return l.Name == name })
	if i < 0 {
		return broker.Log{}, false
	}
	return s.logs[i], true
}

// remade reports whether the broker has another log in place of the one with a name.
func (s standing) remade(name string) bool {
	prefix, _, _ := strings.Cut(name, "@")
	_, found := s.log(name)
	return !found && slices.ContainsFunc(s.logs, func(l broker.Log) bool { return strings.HasPrefix(l.Name, prefix+"@") })
}

// ahead returns how many numbers of the logs are left, if each was read up to a number.
func (s standing) ahead(read map[string]int64) (n int64) {
	for _, l := range s.logs {
		n += max(0, l.Delivered-max(s.at(l.Name).Done, read[l.Name]))
	}
	return n
}

// ends returns the positions after a recovery, with those of logs that events were
// read of.
func (s standing) ends(events map[string]int64) []timer.Position {
	all := make(map[string]timer.Position)
	for _, p := range s.Positions {
		all[p.Log] = p
	}
	for log, number := range events {
		all[log] = timer.Position{Log: log, Done: all[log].Done, Seen: max(all[log].Seen, number)}
	}
	for _, l := range s.logs {
		all[l.Name] = timer.Position{Log: l.Name, Done: l.Delivered, Seen: l.Last}
	}
	return slices.Collect(maps.Values(all))
}

// inFlight is how many numbers of a log an event may be behind the highest that was seen,
// at most, while it is published and not deleted from the outbox yet: two windows of the
// forwarder, and what others publish meanwhile.
const inFlight = 20_000

// withOutbox returns positions behind which all events stand that may still be in the
// outbox of a copy though the broker has them: they would be published again.
func (s standing) withOutbox() (from []timer.Position) {
	for _, p := range s.Positions {
		p.Seen = max(0, p.Seen-inFlight)
		from = append(from, p)
	}
	return from
}
