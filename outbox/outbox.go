// Package outbox carries events from a transaction to the broker. [Append]
// writes them inside the transaction that changes the timer; the [Forwarder]
// publishes them in the order they were appended and deletes each, by its
// number, after the broker's ack. A crash between the two publishes an event
// again under the same id.
package outbox

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// A Row is an event that waits for the broker.
type Row struct {
	Seq      int64            // number in the outbox, never used again
	Message  *message.Message // UUID is the event's id, Metadata its headers
	Attempts int              // publishes that failed though the broker was well
}

// A Table is the outbox of a store. All methods are safe for concurrent use.
type Table interface {
	// Head returns the first rows after the number given, ordered by Seq. It
	// only reads, and never waits for a writer. Rows appended by transactions
	// that commit late may have a lower number than rows seen before.
	Head(ctx context.Context, after int64, limit int) ([]Row, error)

	// Delete removes rows; those that are gone already are no error.
	Delete(ctx context.Context, seqs ...int64) error

	// Fail counts one failed attempt of a row and remembers the reason.
	Fail(ctx context.Context, seq int64, reason string) error

	// Park takes a row out of the outbox for good and keeps it, with the
	// reason, for an operator.
	Park(ctx context.Context, now time.Time, seq int64, reason string) error
}
