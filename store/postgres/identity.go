package postgres

import (
	"cmp"
	"context"
	"net"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/event-service-agent/timer-service/store"
)

// Identity returns the id that the database got when it was created, and its name and server.
func (s *Store) Identity(ctx context.Context) (id, name string, err error) {
	if err := s.ready(ctx); err != nil {
		return "", "", classify("identify the database", err)
	}
	var database, schema, server string
	if err := s.rows(ctx, "identify the database", sqlIdentity, nil, scan(&id, &database, &schema)); err != nil {
		return "", "", err
	}
	if schema != "public" {
		database += "." + schema
	}
	err = onConn(ctx, s.db, func(_ context.Context, c *pgx.Conn) error {
		server = net.JoinHostPort(c.Config().Host, strconv.Itoa(int(c.Config().Port)))
		return nil
	})
	return id, "postgres " + database + " on " + server, classify("identify the database", err)
}

// Attach records which broker the instances use. It writes only if that changes.
func (s *Store) Attach(ctx context.Context, broker, name string, takeover bool) (other string, err error) {
	const doing = "attach the database to a broker"
	for {
		var used, usedName string
		if err := s.rows(ctx, doing, sqlBroker, nil, scan(&used, &usedName)); err != nil || used == broker {
			return "", err
		}
		changed := false
		if err := s.writing(ctx, doing, func(_ context.Context, t *transaction) error {
			t.later(step{
				text: sqlAttach, args: []any{broker, store.Printable(name), takeover},
				done: func(tag pgconn.CommandTag) { changed = tag.RowsAffected() > 0 },
			})
			return nil
		}); err != nil {
			return "", err
		}
		if !changed {
			return cmp.Or(usedName, "another broker"), nil
		}
	}
}
