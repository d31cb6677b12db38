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
	rows := &schema{insert: insert}
	pub, err := watermillsql.NewPublisher(executor{ctx: ctx, tx: tx}, watermillsql.PublisherConfig{SchemaAdapter: rows}, nil)
	if err != nil {
		return fmt.Errorf("append to the outbox: %w", err)
	}
	messages := make([]*message.Message, 0, AppendRows)
	for rows.events = range slices.Chunk(events, AppendRows) {
		messages = messages[:0]
		for _, e := range rows.events {
			messages = append(messages, encode(e))
		}
		if err := pub.Publish("outbox", messages...); err != nil {
			return fmt.Errorf("append to the outbox: %w", err)
		}
	}
	return nil
}

// encode makes the message of an event.
func encode(e timer.DueTimeReached) *message.Message {
	e.ID = envelope.EventID(e)
	m := message.NewMessage(e.ID, envelope.Reached(e))
	m.Metadata = envelope.HeadersOf(e)
	return m
}
