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

// AppendRows is how many events [Append] adds with one statement, but for the
// last one.
const AppendRows = 50

// Append encodes events and adds them to the outbox, in the order given, inside
// the caller's transaction. Insert returns the store's statement that adds n
// rows of id, payload, headers (a JSON object) and the time of the append (Unix
// milliseconds), which is when the event was reached.
func Append(ctx context.Context, tx Tx, insert func(n int) string, events ...timer.DueTimeReached) error {
	rows := &schema{insert: insert, events: make([]timer.DueTimeReached, 0, AppendRows)}
	pub, err := watermillsql.NewPublisher(executor{ctx: ctx, tx: tx}, watermillsql.PublisherConfig{SchemaAdapter: rows}, nil)
	if err != nil {
		return fmt.Errorf("append to the outbox: %w", err)
	}
	messages := make([]*message.Message, 0, AppendRows)
	for chunk := range slices.Chunk(events, AppendRows) {
		messages, rows.events = messages[:0], rows.events[:0]
		for _, e := range chunk {
			e.ID = envelope.EventID(e)
			rows.events = append(rows.events, e)
			messages = append(messages, message.NewMessage(e.ID, envelope.Reached(e)))
		}
		if err := pub.Publish("outbox", messages...); err != nil {
			return fmt.Errorf("append to the outbox: %w", err)
		}
	}
	return nil
}
