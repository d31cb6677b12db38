package deadletter

import (
	"fmt"
	"slices"

	"github.com/event-service-agent/timer-service/timer"
)

// A tally counts results.
type tally struct {
	Summary
	tell    func(Result)
	met     int      // letters that were meant
	missing []string // ids that no letter had so far
	last    *Result  // of a letter that is being removed
}

// meet notes the result of a letter that is meant, and whether the letter is to
// be removed, which remains to be seen.
func (t *tally) meet(r Result, remove bool) {
	t.met++
	t.last = &r
	t.missing = slices.DeleteFunc(t.missing, func(id string) bool { return id == r.Letter.ID })
	if !remove {
		t.settle()
	}
}

// settle counts the last result, of which is known now that it is so.
func (t *tally) settle() {
	r := t.last
	if r == nil {
		return
	}
	t.last = nil
	if r.Did == Refused {
		t.Refused++
	} else {
		t.Done++
	}
	if t.tell != nil {
		t.tell(*r)
	}
}

// doubt returns what is to be said of a letter that may or may not be removed.
func (t *tally) doubt() string {
	if t.last == nil {
		return ""
	}
	return fmt.Sprintf(" (%s was %s, but may still be there)", timer.Quote(t.last.Letter.ID), t.last.Did)
}
