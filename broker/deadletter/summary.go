package deadletter

import (
	"fmt"

	"github.com/event-service-agent/timer-service/timer"
)

// A counter counts results.
type counter struct {
	Summary
	tell    func(Result)
	fitting int     // dead letters that fit the filter
	last    *Result // result of a dead letter that is being removed
}

// add notes the result of a dead letter that fits. If the dead letter is to be removed,
// the next settle counts the result.
func (c *counter) add(r Result, remove bool) {
	c.fitting++
	c.last = &r
	if !remove {
		c.settle()
	}
}

// settle counts and reports the last result. Its dead letter was removed, or stays.
func (c *counter) settle() {
	r := c.last
	if r == nil {
		return
	}
	c.last = nil
	if r.Did == Refused {
		c.Refused++
	} else {
		c.Done++
	}
	if c.tell != nil {
		c.tell(*r)
	}
}

// uncertain returns a text about a dead letter that may or may not be removed.
func (c *counter) uncertain() string {
	if c.last == nil {
		return ""
	}
	return fmt.Sprintf(" (%s was %s, but may still be there)", timer.Quote(c.last.Message.ID), c.last.Did)
}
