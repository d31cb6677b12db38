package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

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
	return add(ctx, tx, insert, events, func(e timer.DueTimeReached) (*message.Message, time.Time) {
		e.ID = envelope.EventID(e)
		id, at := e.ID, e.ReachedAt
		if !e.Again.IsZero() {
			id, at = uuid.NewString(), e.Again
		}
		m := message.NewMessage(id, format.Reached(e))
		m.Metadata = format.HeadersOf(e)
		return m, at
	})
}

// AppendReceipts encodes receipts and adds them to the outbox, as [Append] does with
// events.
func AppendReceipts(ctx context.Context, tx Tx, insert string, format envelope.Format, receipts ...timer.Receipt) error {
	return add(ctx, tx, insert, receipts, func(r timer.Receipt) (*message.Message, time.Time) {
		r.ID = envelope.ReceiptID(r)
		m := message.NewMessage(r.ID, format.Receipt(r))
		m.Metadata = format.HeadersOfReceipt(r)
		return m, r.At
	})
}

// add encodes each of all, and adds it to the outbox.
func add[T any](ctx context.Context, tx Tx, insert string, all []T, encode func(T) (m *message.Message, at time.Time)) error {
	if len(all) == 0 {
		return nil
	}
	messages, times := make([]*message.Message, len(all)), make([]time.Time, len(all))
	for i, t := range all {
		messages[i], times[i] = encode(t)
	}
	pub, err := watermillsql.NewPublisher(&executor{ctx: ctx, tx: tx}, watermillsql.PublisherConfig{SchemaAdapter: &schema{insert: insert, times: times}}, nil)
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
	times  []time.Time // when each message is appended
}

// InsertQuery returns the statement that adds messages.
func (s *schema) InsertQuery(_ string, messages message.Messages) (watermillsql.Query, error) {
	args := make([]any, 0, 4*len(messages))
	for i, m := range messages {
		args = append(args, m.UUID, []byte(m.Payload), string(envelope.EncodeHeaders(m.Metadata)), s.times[i].UnixMilli())
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
