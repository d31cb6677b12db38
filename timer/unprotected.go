package timer

import (
	"fmt"
	"strconv"
	"time"
)

// Unprotected are the timers that wait and whose commands the broker does not keep any
// more, or never did: if the database were lost, only a backup would have them.
type Unprotected struct {
	Timers int64     // how many
	More   bool      // there may be more: not all that wait were looked at
	Oldest time.Time // when the oldest of their commands was sent; zero if that is not known
	Before time.Time // they are those whose command is older than this; zero if the broker keeps nothing
	At     time.Time // when they were counted; zero if they were not yet
}

// String says it to people.
func (u Unprotected) String() string {
	since := u.Before.UTC().Format(time.RFC3339)
	switch {
	case u.At.IsZero():
		return "not known yet"
	case u.Before.IsZero():
		return "backup only: the broker keeps nothing that was read, so no timer that waits is protected by it"
	case u.Timers == 0 && u.More:
		return fmt.Sprintf("the broker still has the commands of the timers that were looked at (since %s); there are too many to look at all", since)
	case u.Timers == 0:
		return fmt.Sprintf("the broker still has the commands of all timers that wait (since %s)", since)
	}
	n := strconv.FormatInt(u.Timers, 10)
	if u.More {
		n += " or more"
	}
	return fmt.Sprintf("timers older than what the broker still has (since %s): %s; the oldest is of %s; only a backup protects them",
		since, n, u.Oldest.UTC().Format(time.RFC3339))
}
