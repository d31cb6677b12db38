package outbox

import (
	"context"
	"database/sql"

	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
)

// A schema is Watermill's adapter for our table, as far as its publisher needs
// one. The embedded interface is nil: what a subscriber would need is not there,
// since Watermill's holds a transaction while it publishes.
type schema struct {
	watermillsql.SchemaAdapter
	insert func(n int) string
	rows   []encoded // those that are published
}

// An encoded is what a row is made of.
type encoded struct {
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
	return watermillsql.Query{Query: s.insert(len(messages)), Args: args}, nil
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
