package store

import (
	"cmp"
	"slices"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Published returns the ids of events that were published, and of each key the newest
// event, in the order of keys, with its id, and times as stores keep them.
func Published(events []timer.DueTimeReached) (ids []string, newest []timer.DueTimeReached) {
	ids, newest = make([]string, len(events)), slices.Clone(events)
	for i := range newest {
		e := &newest[i]
		if e.ID == "" {
			e.ID = envelope.EventID(*e)
		}
		ids[i] = e.ID
		e.DueAt, e.ReachedAt = timer.RoundUp(e.DueAt), timer.RoundDown(e.ReachedAt)
		if e.ReachedAt.Before(e.DueAt) { // which only another program can have published
			e.ReachedAt = e.DueAt
		}
	}
	slices.SortStableFunc(newest, func(a, b timer.DueTimeReached) int {
		return cmp.Or(a.Compare(b.Key), b.ReachedAt.Compare(a.ReachedAt))
	})
	return ids, slices.CompactFunc(newest, func(a, b timer.DueTimeReached) bool { return a.Key == b.Key })
}
