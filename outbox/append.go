package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Tx is the transaction that Append writes in, such as an [sql.Tx].
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// An Insert is how a store adds rows to its outbox.
type Insert struct {
	Rows int                // how many one statement adds at most
	Text func(n int) string // the statement that adds n rows of id, payload, headers (a JSON object) and time of the append (Unix milliseconds)
}

// Append encodes events in a format and adds them to the outbox, in the order
// given, inside the caller's transaction. They keep the format while they wait,
// whatever those appended later have. The time of the append is when the event
// was reached. It returns the rows, which have numbers if the driver returns the
// last one that it gave.
func Append(ctx context.Context, tx Tx, insert Insert, format envelope.Format, events ...timer.DueTimeReached) ([]Row, error) {
	size := min(insert.Rows, len(events))
	chunk := &schema{insert: insert.Text, format: format, events: make([]timer.DueTimeReached, 0, size)}
	exec := &executor{ctx: ctx, tx: tx}
	pub, err := watermillsql.NewPublisher(exec, watermillsql.PublisherConfig{SchemaAdapter: chunk}, nil)
	if err != nil {
		return nil, fmt.Errorf("append to the outbox: %w", err)
	}
	rows := make([]Row, 0, len(events))
	messages := make([]*message.Message, 0, size)
	for some := range slices.Chunk(events, max(size, 1)) {
		messages, chunk.events = messages[:0], chunk.events[:0]
		for _, e := range some {
			e.ID = envelope.EventID(e)
			m := message.NewMessage(e.ID, format.Reached(e))
			m.Metadata = format.HeadersOf(e)
			chunk.events, messages = append(chunk.events, e), append(messages, m)
		}
		if err := pub.Publish("outbox", messages...); err != nil {
			return nil, fmt.Errorf("append to the outbox: %w", err)
		}
		for i, m := range messages {
			row := Row{Message: m}
			if exec.last > 0 {
				row.Seq = exec.last - int64(len(messages)-1-i)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}
