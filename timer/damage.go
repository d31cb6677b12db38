package timer

import (
	"context"
	"time"
)

// A Repairer is the part of a store by which timers are made whole again whose rows
// were damaged, in memory or on disk. [Tx.Reach] sets such a row aside, which moves it
// from the timers to the damaged rows: it does not fire, and its key has no timer any
// more, so that a command for it schedules anew.
type Repairer interface {
	// Damaged returns damaged rows, oldest first, behind a number.
	Damaged(ctx context.Context, after int64, limit int) ([]DamagedRow, error)

	// DiscardDamaged deletes damaged rows, and returns how many. Their timers are
	// scheduled again, or known to be lost.
	DiscardDamaged(ctx context.Context, seqs ...int64) (discarded int, err error)
}

// A DamagedRow is what was found in the row of a timer, of which one field or more is
// wrong, or its checksum. Texts may hold any bytes.
type DamagedRow struct {
	Seq int64 // its number
	Key
	Version
	DueAt   time.Time // zero if there was none
	FoundAt time.Time // when it was due and found damaged
}
