package outbox

import (
	"context"
	"database/sql"
	"fmt"

	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Tx is the transaction that Append writes in, such as an [sql.Tx].
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Append encodes events in a format and adds them to the outbox, in the order
// given, inside the caller's transaction. They keep the format while they wait,
// whatever those appended later have. The time of the append is when the event
// was reached. An event that is published again is a row and a message with an id of its own,
// so that no broker drops it as a repetition; its body, with the id of the event, is the same.
//
// Insert is the statement that adds rows. Its arguments are the id, payload, headers (a JSON
// object) and time of the append (Unix milliseconds) of each row.
func Append(ctx context.Context, tx Tx, insert string, format envelope.Format, events ...timer.DueTimeReached) error {
	return add(ctx, tx, insert, events, func(e timer.DueTimeReached) encodedRow {
		e.ID = envelope.EventID(e)
		id, at := e.ID, e.ReachedAt
		if !e.Again.IsZero() {
			id, at = uuid.NewString(), e.Again
		}
		m := message.NewMessage(id, format.Reached(e))
		m.Metadata = format.HeadersOf(e)
		return encodedRow{m, envelope.EncodeHeaders(m.Metadata), at.UnixMilli()}
	})
}

// AppendReceipts encodes receipts and adds them to the outbox, as [Append] does with
// events.
func AppendReceipts(ctx context.Context, tx Tx, insert string, format envelope.Format, receipts ...timer.Receipt) error {
	return add(ctx, tx, insert, receipts, func(r timer.Receipt) encodedRow {
		r.ID = envelope.ReceiptID(r)
		m := message.NewMessage(r.ID, format.Receipt(r))
		m.Metadata = format.HeadersOfReceipt(r)
		return encodedRow{m, envelope.EncodeHeaders(m.Metadata), r.At.UnixMilli()}
	})
}

// add encodes each of all, and adds it to the outbox.
func add[T any](ctx context.Context, tx Tx, insert string, all []T, encode func(T) encodedRow) error {
	if len(all) == 0 {
		return nil
	}
	rows, messages := make([]encodedRow, len(all)), make([]*message.Message, len(all))
	for i, t := range all {
		rows[i] = encode(t)
		messages[i] = rows[i].message
	}
	pub, err := watermillsql.NewPublisher(&executor{ctx: ctx, tx: tx}, watermillsql.PublisherConfig{SchemaAdapter: &schema{insert: insert, rows: rows}}, nil)
	if err == nil {
		err = pub.Publish("outbox", messages...)
	}
	if err != nil {
		return fmt.Errorf("append to the outbox: %w", err)
	}
	return nil
}

// A schema is the part of Watermill's adapter for our table that its publisher needs. The
// embedded interface is nil, because only Watermill's subscriber calls its methods. The
// forwarder takes the place of that subscriber, which holds a transaction while it publishes.
type schema struct {
	watermillsql.SchemaAdapter
	insert string
	rows   []encodedRow // of the messages that are published
}

// An encodedRow holds the columns of a row.
type encodedRow struct {
	message *message.Message
	headers []byte
	at      int64 // of the append, in Unix milliseconds
}

// InsertQuery returns the statement that adds messages.
func (s *schema) InsertQuery(_ string, messages message.Messages) (watermillsql.Query, error) {
	args := make([]any, 0, 4*len(messages))
	for i, m := range messages {
		args = append(args, m.UUID, []byte(m.Payload), string(s.rows[i].headers), s.rows[i].at)
	}
	return watermillsql.Query{Query: s.insert, Args: args}, nil
}

// An executor gives the statements of Watermill's publisher, which have no
// context, that of the caller. The embedded interface is nil: the publisher only
// executes.
type executor struct {
	watermillsql.ContextExecutor
	ctx context.Context
	tx  Tx
}

// ExecContext runs a statement with the caller's context.
func (e *executor) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	return e.tx.ExecContext(e.ctx, query, args...)
}
