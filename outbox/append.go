package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Tx is the transaction that Append writes in.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// appendRows is how many events one statement adds.
const appendRows = 50

// Append encodes events and adds them to the outbox, in the order given, inside
// the caller's transaction. Insert returns the store's statement that adds n
// rows of id, payload, headers (a JSON object) and the time of the append (Unix
// milliseconds).
func Append(ctx context.Context, tx Tx, insert func(n int) string, events ...timer.DueTimeReached) error {
	pub, err := watermillsql.NewPublisher(executor{ctx, tx}, watermillsql.PublisherConfig{SchemaAdapter: schema{insert}}, nil)
	if err != nil {
		return fmt.Errorf("append to the outbox: %w", err)
	}
	messages := make([]*message.Message, 0, min(len(events), appendRows))
	for len(events) > 0 {
		n := min(len(events), appendRows)
		messages = messages[:0]
		for _, e := range events[:n] {
			messages = append(messages, encode(e))
		}
		if err := pub.Publish("outbox", messages...); err != nil {
			return fmt.Errorf("append to the outbox: %w", err)
		}
		events = events[n:]
	}
	return nil
}

// encode makes the message of an event.
func encode(e timer.DueTimeReached) *message.Message {
	e.ID = envelope.EventID(e)
	m := message.NewMessage(e.ID, envelope.Reached(e))
	m.Metadata = envelope.HeadersOf(e)
	m.SetContext(context.WithValue(context.Background(), appendedAtKey{}, e.ReachedAt.UnixMilli()))
	return m
}

// appendedAtKey carries the time of the append to the schema; it is no header.
type appendedAtKey struct{}

// An executor is a [Tx] as Watermill's publisher wants it. The publisher uses
// the background context; the executor, the caller's.
type executor struct {
	ctx context.Context //nolint:containedctx // the publisher has none to pass
	tx  Tx
}

func (e executor) Exec(query string, args ...any) (sql.Result, error) {
	return e.tx.ExecContext(e.ctx, query, args...)
}

func (e executor) Query(query string, args ...any) (*sql.Rows, error) {
	return e.tx.QueryContext(e.ctx, query, args...)
}

func (e executor) QueryRow(query string, args ...any) *sql.Row {
	return e.tx.QueryRowContext(e.ctx, query, args...)
}

func (e executor) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	return e.tx.ExecContext(e.ctx, query, args...)
}

func (e executor) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	return e.tx.QueryContext(e.ctx, query, args...)
}

func (e executor) QueryRowContext(_ context.Context, query string, args ...any) *sql.Row {
	return e.tx.QueryRowContext(e.ctx, query, args...)
}

// A schema is Watermill's adapter for our table. Only its write side is used:
// Watermill's subscriber would hold a transaction while it publishes.
type schema struct{ insert func(n int) string }

var errWriteOnly = errors.New("the outbox is read by its forwarder")

// InsertQuery returns the statement that adds messages.
func (s schema) InsertQuery(_ string, messages message.Messages) (watermillsql.Query, error) {
	args := make([]any, 0, 4*len(messages))
	for _, m := range messages {
		headers, err := json.Marshal(m.Metadata)
		if err != nil {
			return watermillsql.Query{}, err
		}
		args = append(args, m.UUID, []byte(m.Payload), string(headers), m.Context().Value(appendedAtKey{}))
	}
	return watermillsql.Query{Query: s.insert(len(messages)), Args: args}, nil
}

// SelectQuery is not used.
func (schema) SelectQuery(string, string, watermillsql.OffsetsAdapter) watermillsql.Query {
	return watermillsql.Query{}
}

// UnmarshalMessage is not used.
func (schema) UnmarshalMessage(watermillsql.Scanner) (watermillsql.Row, error) {
	return watermillsql.Row{}, errWriteOnly
}

// SchemaInitializingQueries is not used: migrations make the table.
func (schema) SchemaInitializingQueries(string) []watermillsql.Query { return nil }

// SubscribeIsolationLevel is not used.
func (schema) SubscribeIsolationLevel() sql.IsolationLevel { return sql.LevelDefault }
