package crash

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// A Takeover says how the service as a whole went on after faults.
type Takeover struct {
	// Next is from each fault, or from when a server that was hit was back,
	// until the next timer fired for the first time.
	Next history.Lateness `json:"next"`

	// Gap is the greatest lateness, at each fault at one of several instances, of
	// timers that were due around it and accepted by then.
	Gap history.Lateness `json:"gap"`

	// Alone is how many faults at one of several are in neither, since no other
	// was up all the while.
	Alone int `json:"alone"`
}

// around is how long before and after a fault a timer is due that it may
// concern: the instance that is hit has marked those before, and was to fire
// those after.
const around = time.Second

// takeover measures how the service went on after the faults.
func (r *run) takeover(fires []history.Fire) (t Takeover) {
	byDue := slices.Clone(fires)
	slices.SortFunc(byDue, func(a, b history.Fire) int { return a.Due.Compare(b.Due) })
	var next, gap []time.Duration
	for _, s := range r.done {
		if s.hit != nil && len(r.instances) > 1 {
			if !r.othersUp(s) {
				t.Alone++
				continue
			}
			if late, ok := latest(byDue, s.at); ok {
				gap = append(gap, late)
			}
		}
		i, _ := slices.BinarySearchFunc(fires, s.over, func(f history.Fire, at time.Time) int { return f.At.Compare(at) })
		if i < len(fires) {
			next = append(next, fires[i].At.Sub(s.over))
		}
	}
	t.Next, t.Gap = history.NewLateness(next), history.NewLateness(gap)
	return t
}

// othersUp reports whether another instance than the one that was hit was up
// all the while.
func (r *run) othersUp(s fault) bool {
	for _, in := range r.instances {
		for _, up := range in.up {
			if in != s.hit && !up.From.After(s.at) && !up.To.Before(s.at.Add(around)) {
				return true
			}
		}
	}
	return false
}

// latest returns the greatest lateness of timers that were due around a time
// and accepted by then.
func latest(byDue []history.Fire, at time.Time) (late time.Duration, ok bool) {
	i, _ := slices.BinarySearchFunc(byDue, at.Add(-around), func(f history.Fire, at time.Time) int { return f.Due.Compare(at) })
	for ; i < len(byDue) && !byDue[i].Due.After(at.Add(around)); i++ {
		if f := byDue[i]; f.Accepted {
			late, ok = max(late, f.Late()), true
		}
	}
	return late, ok
}

// write writes rows of the table of a report.
func (t Takeover) write(out io.Writer) {
	for _, row := range []struct {
		name string
		history.Lateness
	}{
		{"next event after a fault", t.Next},
		{"latest of those due around it", t.Gap},
	} {
		if row.Count > 0 {
			fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.1f\t%d\n", row.name, row.P50MS, row.P99MS, row.MaxMS, row.Count)
		}
	}
}
