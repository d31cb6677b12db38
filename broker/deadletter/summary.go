package deadletter

import (
	"fmt"

	"github.com/event-service-agent/timer-service/timer"
)

// A counter counts results.
type counter struct {
	Summary
	tell    func(Result)
	pending []Result // of dead letters that are being removed, and of others behind them
}

// add notes the result of a dead letter. If the caller removes the dead letter, or one before it,
// the next settle counts the result.
func (c *counter) add(r Result, remove bool) {
	if remove || len(c.pending) > 0 {
		c.pending = append(c.pending, r)
		return
	}
	c.count(r)
}

// settle counts and reports the pending results. Their dead letters were removed.
func (c *counter) settle() {
	for _, r := range c.pending {
		c.count(r)
	}
	c.pending = nil
}

func (c *counter) count(r Result) {
	if r.Did == Refused {
		c.Refused++
	} else {
		c.Done++
	}
	if c.tell != nil {
		c.tell(r)
	}
}

// uncertain returns a text about dead letters that may or may not be removed.
func (c *counter) uncertain() string {
	if len(c.pending) == 0 {
		return ""
	}
	first, others := c.pending[0], ""
	if n := len(c.pending) - 1; n > 0 {
		others = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf(" (%s%s: %s, but may still be there)", timer.Quote(first.Message.ID), others, first.Did)
}
