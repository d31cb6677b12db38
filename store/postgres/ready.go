package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/event-service-agent/timer-service/timer"
)

// oldest is the oldest supported version of the server, as server_version_num.
const oldest = 150000

// ready checks the database once, until the check succeeds.
func (s *Store) ready(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		return nil
	}
	if err := s.CheckServer(ctx); err != nil {
		return err
	}
	if err := Verify(ctx, s.db); err != nil {
		return err
	}
	denied, err := s.Denied(ctx)
	if err != nil {
		return err
	}
	if len(denied) > 0 {
		return fmt.Errorf("%w: the role may not read and change %s: grant it SELECT, INSERT, UPDATE and DELETE", timer.ErrFatal, strings.Join(denied, ", "))
	}
	var database, schema string
	if err := readTx(ctx, s.db, step{text: sqlIdentity, each: scan(&s.id, &database, &schema)}); err != nil {
		return err
	}
	s.known = true
	return nil
}

// Prepare checks the database before the first use: the server's version and
// how it syncs, and the schema, as [Verify] does.
func (s *Store) Prepare(ctx context.Context) error {
	return classify("check the database", s.ready(ctx))
}

// CheckServer returns an error that wraps [timer.ErrFatal] if the server can't keep the
// promises of the store.
func (s *Store) CheckServer(ctx context.Context) error {
	var number int64
	var version, synchronous, fsync string
	if err := readTx(ctx, s.db, step{text: sqlServer, each: scan(&number, &version, &synchronous, &fsync)}); err != nil {
		return err
	}
	return judge(number, version, synchronous, fsync, s.opt.Durability)
}

// judge returns an error that says why a server can't be used.
func judge(number int64, version, synchronous, fsync string, d Durability) error {
	switch {
	case number < oldest:
		return fmt.Errorf("%w: the server is PostgreSQL %s: it must be PostgreSQL %d or newer", timer.ErrFatal, version, oldest/10000)
	case d == Strict && fsync == "off":
		return fmt.Errorf("%w: the server has fsync = off: a loss of power may take the whole database; turn it on, or set durability to relaxed", timer.ErrFatal)
	case d == Strict && synchronous == "off":
		return fmt.Errorf("%w: the database has synchronous_commit = off: a crash of the server may take timers that were accepted; "+
			"turn it on for the database and the role, or set durability to relaxed", timer.ErrFatal)
	}
	return nil
}
