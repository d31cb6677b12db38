package crash

import (
	"slices"
	"time"
)

// A stage says when a step is passed.
type stage int

const (
	newFile stage = iota // at the start, if the database is new
	oldFile              // soon after the start, if timers are old enough to be purged
	working              // all the time
	ending               // after SIGTERM
)

// A step is a place in the code of the service where it can be killed. The
// names are the service's: see its package failpoint.
type step struct {
	name  string
	stage stage
	most  int           // the process dies at its 1st to most-th passage
	away  time.Duration // before the process starts, so that much is due at once
	died  string        // the last action of the process, for people
}

// steps are all of them, in the order in which they are hit.
var steps = []step{
	{"migrating", newFile, 1, 0, "made tables, and not committed them"},
	{"migrated", newFile, 1, 0, "brought the database up to date"},
	{"fetched", working, 30, 0, "taken a message from the broker"},
	{"applied", working, 30, 0, "applied a command, and not committed it"},
	{"committed", working, 10, 0, "committed commands, and reported no outcome"},
	{"handled", working, 30, 0, "committed a command, and not acked it"},
	{"acked", working, 30, 0, "acked a message"},
	{"dead-lettered", working, 3, 0, "published a dead letter, and not acked its original"},
	{"claimed", working, 5, 0, "marked timers as reached, and not committed that"},
	{"emitted", working, 5, 0, "appended events to the outbox, and not committed them"},
	{"reached", working, 5, 0, "committed both, and not woken the forwarder"},
	{"publishing", working, 30, time.Second, "published a part of a batch"},
	{"published", working, 5, 0, "published events, and not deleted them"},
	{"deleting", working, 5, 0, "deleted published events, and not committed that"},
	{"deleted", working, 5, 0, "deleted published events"},
	{"draining", ending, 1, 0, "ended its intake, and not emptied its outbox"},
	{"purging", oldFile, 1, 0, "purged old timers, and not committed that"},
}

// Steps returns the names of all steps.
func Steps() (names []string) {
	for _, s := range steps {
		names = append(names, s.name)
	}
	return names
}

// chosen returns the steps that the options name and that are passed at some
// stage; all of them if the options name none.
func (o Options) chosen(at ...stage) (some []step) {
	for _, s := range steps {
		named := len(o.Steps) == 0 || slices.Contains(o.Steps, s.name)
		if o.Mode == Step && named && slices.Contains(at, s.stage) {
			some = append(some, s)
		}
	}
	return some
}

// passage returns at which passage the process dies at the nth of some times, counted
// from 0.
//
// A migration has two transactions: one makes the table of versions, one all the
// rest. The first faults are at the former, which is undone each time. Then one
// does not stop at it.
func (r *run) passage(s step, n, times int) int {
	switch {
	case s.name == "migrating" && n == times/2 && times > 1:
		return 2
	case s.most == 1:
		return 1
	}
	return 1 + r.rand.IntN(s.most)
}

// times returns how often a step is hit. PostgreSQL is asked for its version
// first, so a database that is up to date is not migrated again.
func (r *run) times(s step) int {
	if s.name == "migrated" && r.opt.Store == Postgres {
		return 1
	}
	return r.opt.Kills
}

// A StepReport has the faults at a step.
type StepReport struct {
	Step    string
	Died    string // the last action of the process each time
	Kills   int
	Seconds float64
}
