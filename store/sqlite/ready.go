package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A readiness is what has to be known before the first transaction, since that
// may hold the only connection.
type readiness struct {
	file       identity
	conn       *sql.Conn            // that writes; nil on a host's handle
	statements map[string]*sql.Stmt // those that write, by text
	next       *sql.Stmt            // of NextDue; nil on a host's handle
}

// ready finds out what is not known yet. A host's handle is verified first.
func (s *Store) ready(ctx context.Context) (*readiness, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != nil {
		return s.known, nil
	}
	if s.host {
		if err := Verify(ctx, s.db); err != nil {
			return nil, err
		}
		if err := s.judge(ctx); err != nil {
			return nil, err
		}
	}
	file, err := identify(ctx, s.db)
	if err != nil {
		return nil, err
	}
	if !s.host {
		if err := file.keepLog(); err != nil {
			return nil, err
		}
	}
	if err := s.quickCheck(ctx, file.path); err != nil {
		return nil, err
	}
	r := &readiness{file: file, statements: make(map[string]*sql.Stmt, len(writing))}
	prepare := s.db.PrepareContext
	if !s.host {
		if r.conn, err = s.db.Conn(ctx); err != nil {
			return nil, err
		}
		prepare = r.conn.PrepareContext
	}
	for _, text := range writing {
		if r.statements[text], err = prepare(ctx, text); err != nil {
			delete(r.statements, text)
			return nil, errors.Join(err, r.close())
		}
	}
	if !s.host {
		if r.next, err = s.reads.PrepareContext(ctx, sqlNextDue); err != nil {
			return nil, errors.Join(err, r.close())
		}
		s.next.Store(r.next) // which the poller asks again and again
	}
	s.known = r
	return r, nil
}

// Prepare checks the database before the first use: the schema of a host's
// handle, as [Verify] does, and which file it is. A file that is replaced later
// is noticed from then on. Next due times of tenants that differ are corrected: damage
// may have made one too late or null, in its row or in the index, so that its timers
// would not fire.
func (s *Store) Prepare(ctx context.Context) error {
	const doing = "check the database"
	if _, err := s.ready(ctx); err != nil {
		return classify(doing, err)
	}
	var verdict string
	err := s.reads.QueryRowContext(ctx, `PRAGMA integrity_check(timer_counts)`).Scan(&verdict)
	damaged := verdict != "ok"
	if err == nil && !damaged {
		err = s.reads.QueryRowContext(ctx, sqlNextDueDiffers).Scan(&damaged)
	}
	if err != nil || !damaged {
		return classify(doing, err)
	}
	if verdict != "ok" {
		s.indexes.Store(true) // the next transaction makes them again
	}
	return s.writing(ctx, doing, func(ctx context.Context, t *transaction) error {
		_, err := t.ExecContext(ctx, sqlFindNextDue)
		return err
	})
}

// judge logs if a host's handle loses commits when the power fails.
func (s *Store) judge(ctx context.Context) error {
	var synchronous int
	if err := s.db.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&synchronous); err != nil {
		return err
	}
	if s.opt.Durability == Strict && synchronous < 2 {
		s.opt.Log.WarnContext(ctx, "the database's handle does not sync every commit: a loss of power may take timers that were accepted; open it with sqlite.DSN",
			"synchronous", synchronous)
	}
	return nil
}

func (r *readiness) close() (err error) {
	for _, stmt := range r.statements {
		err = errors.Join(err, stmt.Close())
	}
	if r.next != nil {
		err = errors.Join(err, r.next.Close())
	}
	if r.conn != nil {
		err = errors.Join(err, r.conn.Close())
	}
	return err
}

// Identity returns the id that the database was given when it was made, and its path
// and machine.
func (s *Store) Identity(ctx context.Context) (id, name string, err error) {
	ready, err := s.ready(ctx)
	if err == nil {
		err = s.reads.QueryRowContext(ctx, sqlIdentity).Scan(&id)
	}
	if err != nil {
		return "", "", classify("identify the database", err)
	}
	host, _ := os.Hostname() // for people
	return id, "sqlite " + ready.file.path + " on " + host, nil
}

// Attach does nothing: a file belongs to one instance, which has one broker.
func (s *Store) Attach(context.Context, string, string, bool) (other string, err error) {
	return "", nil
}

// Now returns [errors.ErrUnsupported]: the database has no clock of its own.
func (s *Store) Now(context.Context) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }

// Instances returns 1: a file belongs to one instance.
func (s *Store) Instances() int { return 1 }

// Nodes returns this instance alone.
func (s *Store) Nodes(context.Context) ([]timer.Node, error) {
	node := s.node
	node.Seen = time.Now().UTC() //nolint:forbidigo // of an instance, not of timers
	return []timer.Node{node}, nil
}
