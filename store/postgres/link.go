package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/event-service-agent/timer-service/timer"
)

// limit is how long a call may take, with all its statements. The server's own
// limits are shorter: this one is for a server that does not answer.
const limit = 30 * time.Second

// onConn runs fn with a connection of the pool, within a limit.
func onConn(ctx context.Context, db *sql.DB, fn func(context.Context, *pgx.Conn) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return withConn(bounded, db, fn)
}

// readTx runs statements in a transaction that only reads, in one round trip.
func readTx(ctx context.Context, db *sql.DB, steps ...step) error {
	return onConn(ctx, db, func(ctx context.Context, c *pgx.Conn) error {
		defer rollBack(ctx, c) // if it fails
		return send(ctx, c, slices.Concat(reading(), steps, []step{{text: commit}})...)
	})
}

// withConn runs fn with a connection of the pool. When ctx ends, its error says so,
// whatever the server or the network made of that.
func withConn(ctx context.Context, db *sql.DB, fn func(context.Context, *pgx.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = onDriver(ctx, conn, fn)
	if ended := ctx.Err(); err != nil && ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

// onDriver runs fn with what is behind a connection.
func onDriver(ctx context.Context, conn *sql.Conn, fn func(context.Context, *pgx.Conn) error) error {
	return conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("%w: the handle's driver is %T: open it with pgx's, sql.Open(\"pgx\", url)", timer.ErrFatal, driver)
		}
		err := fn(ctx, c.Conn())
		if codeOf(err) == readOnly {
			_ = c.Conn().Close(ctx)
		}
		return err
	})
}

// readOnly is the code of a server that takes no writes: a standby, or what was the
// primary before others took over. Connections to it live on, so they are closed:
// the next ones go where the URL leads by then.
const readOnly = "25006"

// A step is a statement on its way to the server.
type step struct {
	text  string
	args  []any
	each  func(pgx.Rows) error    // called for each row; may be nil
	done  func(pgconn.CommandTag) // called at the end, unless it fails; may be nil
	check func() error            // called then, may fail; may be nil
}

// send runs statements in one round trip, and stops at the first that fails. They
// have no names, and nothing is remembered for the next time: so a PgBouncer in
// between may give each transaction another connection to the server. Arguments
// and results are binary, which depends on no setting of the session.
//
// It is not a pgx.Batch, since that takes its mode from the configuration of the
// connection (pgx v5.12, a TODO in Conn.sendBatch): on a host's handle it would
// prepare statements by default, which breaks behind a PgBouncer, or with the
// simple protocol send them as text.
func send(ctx context.Context, c *pgx.Conn, steps ...step) error {
	return exchange(ctx, c, make([]*pgconn.StatementDescription, len(steps)), steps)
}

// sendPrepared is send, but has the server prepare our own statements once for
// each connection, with a name.
func sendPrepared(ctx context.Context, c *pgx.Conn, steps ...step) (err error) {
	prepared := make([]*pgconn.StatementDescription, len(steps))
	for i, s := range steps {
		if name, ours := names[s.text]; ours {
			// The second time this returns what it returned the first time.
			if prepared[i], err = c.Prepare(ctx, name, s.text); err != nil {
				return err
			}
		}
	}
	return exchange(ctx, c, prepared, steps)
}

// exchange sends statements, those that are prepared by their names, and reads the
// results.
func exchange(ctx context.Context, c *pgx.Conn, prepared []*pgconn.StatementDescription, steps []step) (err error) {
	binary := []int16{pgx.BinaryFormatCode}
	pipe := c.PgConn().StartPipeline(ctx)
	defer func() {
		if closed := pipe.Close(); err == nil {
			err = closed
		}
	}()
	for i, s := range steps {
		if p := prepared[i]; p != nil {
			values, formats, err := encode(c, s.args, p.ParamOIDs)
			if err != nil {
				return err
			}
			pipe.SendQueryPrepared(p.Name, values, formats, binary)
			continue
		}
		oids, err := typesOf(c, s.args)
		if err != nil {
			return err
		}
		values, formats, err := encode(c, s.args, oids)
		if err != nil {
			return err
		}
		pipe.SendQueryParams(s.text, values, oids, formats, binary)
	}
	if err := pipe.Sync(); err != nil {
		return err
	}
	for _, s := range steps {
		if err := s.receive(c, pipe); err != nil {
			return err
		}
	}
	return nil
}

// receive reads the result of a statement.
func (s step) receive(c *pgx.Conn, pipe *pgconn.Pipeline) error {
	results, err := pipe.GetResults()
	if err != nil {
		return err
	}
	result, ok := results.(*pgconn.ResultReader)
	if !ok {
		return fmt.Errorf("the server answered a statement with %T", results)
	}
	rows := pgx.RowsFromResultReader(c.TypeMap(), result)
	defer rows.Close()
	for rows.Next() {
		if s.each == nil {
			continue
		}
		if err := s.each(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if s.done != nil {
		s.done(rows.CommandTag())
	}
	if s.check != nil {
		return s.check()
	}
	return nil
}

// typesOf returns the types that arguments have by themselves.
func typesOf(c *pgx.Conn, args []any) ([]uint32, error) {
	oids := make([]uint32, len(args))
	for i, arg := range args {
		t, ok := c.TypeMap().TypeForValue(arg)
		if !ok {
			return nil, fmt.Errorf("argument %d of a statement is a %T", i+1, arg)
		}
		oids[i] = t.OID
	}
	return oids, nil
}

// encode returns arguments as they are sent.
func encode(c *pgx.Conn, args []any, oids []uint32) (values [][]byte, formats []int16, err error) {
	if len(args) != len(oids) {
		return nil, nil, fmt.Errorf("a statement has %d arguments, not %d", len(oids), len(args))
	}
	values, formats = make([][]byte, len(args)), make([]int16, len(args))
	none := []byte{} // a value that is nil is null
	for i, arg := range args {
		if values[i], err = c.TypeMap().Encode(oids[i], pgx.BinaryFormatCode, arg, none); err != nil {
			return nil, nil, fmt.Errorf("argument %d of a statement: %w", i+1, err)
		}
		formats[i] = pgx.BinaryFormatCode
	}
	return values, formats, nil
}

// scan returns what reads the only row of a statement.
func scan(dest ...any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error { return rows.Scan(dest...) }
}
