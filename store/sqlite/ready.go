package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A readiness holds facts about the database that are needed before the first transaction.
type readiness struct {
	file       identity
	statements map[string]*sql.Stmt // of the handle that writes, by text
	polls      map[string]*sql.Stmt // of the handle that reads: the forwarder repeats them
}

// ready finds out the facts that are not known yet. It verifies a host's handle first.
func (s *Store) ready(ctx context.Context) (*readiness, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != nil {
		return s.known, nil
	}
	if s.host {
		if s.db.Stats().MaxOpenConnections == 1 { // a read inside of a transaction of the host would wait for that one
			return nil, fmt.Errorf("%w: the handle has one connection: give it 2 or more", timer.ErrFatal)
		}
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
	if s.host {
		if err := cmp.Or(notMounted(file.path), present(file.path)); err != nil {
			return nil, fmt.Errorf("%w: %w", timer.ErrFatal, err)
		}
	} else if err := file.keepLog(); err != nil {
		return nil, err
	}
	if err := s.quickCheck(ctx, file.path); err != nil {
		return nil, err
	}
	if err := s.renumber(ctx); err != nil {
		return nil, err
	}
	var triggers string
	if err := s.db.QueryRowContext(ctx, sqlTriggers).Scan(&triggers); err != nil {
		return nil, err
	}
	if triggers != "" {
		return nil, fmt.Errorf("%w: triggers may drop rows in silence: %s: drop these; a host's triggers belong on timer_schedules", timer.ErrFatal, triggers)
	}
	r := &readiness{file: file}
	if r.statements, err = prepare(ctx, s.db, writing); err == nil {
		r.polls, err = prepare(ctx, s.reads, polling)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	s.known = r
	return r, nil
}

// renumber sets the next number of an event behind the numbers of all rows. In a file that
// was made from the rows of another one, as by .recover, the count would begin again.
func (s *Store) renumber(ctx context.Context) error {
	var last, highest int64
	err := s.db.QueryRowContext(ctx, sqlNumbered).Scan(&last, &highest)
	if err != nil || highest <= last {
		return err
	}
	s.opt.Log.WarnContext(ctx, "the sequence of timer_outbox was behind its rows: moved up", "from", last, "to", highest)
	_, err = s.db.ExecContext(ctx, sqlRenumber, highest)
	return err
}

// prepare prepares statements, by text. The caller must close the returned ones, also after an
// error.
func prepare(ctx context.Context, db *sql.DB, texts []string) (map[string]*sql.Stmt, error) {
	statements := make(map[string]*sql.Stmt, len(texts))
	for _, text := range texts {
		stmt, err := db.PrepareContext(ctx, text)
		if err != nil {
			return statements, err
		}
		statements[text] = stmt
	}
	return statements, nil
}

// pollQuerier runs statements of [polling]: prepared, once the store is ready.
type pollQuerier struct{ *Store }

// QueryContext runs a statement.
func (s pollQuerier) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	s.mu.Lock()
	ready := s.known
	s.mu.Unlock()
	if ready == nil {
		return s.reads.QueryContext(ctx, text, args...)
	}
	return ready.polls[text].QueryContext(ctx, args...)
}

// Lock takes the lock of the file for a host that runs an app on it, until unlock is called. Who
// calls [Open] has it. The error names the process that has it.
func (s *Store) Lock(ctx context.Context) (unlock func() error, err error) {
	const doing = "lock the database"
	if !s.host {
		return func() error { return nil }, nil
	}
	ready, err := s.ready(ctx)
	if err != nil {
		return nil, classify(doing, err)
	}
	lock, err := takeLock(ready.file.path, s.opt.Log)
	if err != nil {
		return nil, err
	}
	s.lock.Store(lock)
	return lock.Unlock, nil
}

// intact returns an error that wraps [timer.ErrFatal] if another file is at the path of the
// database, or another process has its lock.
func (s *Store) intact(r *readiness) error {
	err := r.file.check()
	if err == nil {
		err = s.lock.Load().check()
	}
	return err
}

// Prepare checks the database before the first use: the schema of a host's
// handle, as [Verify] does, and which file it is. A file that is replaced later
// is noticed from then on.
func (s *Store) Prepare(ctx context.Context) error {
	_, err := s.ready(ctx)
	return classify("check the database", err)
}

// judge logs if a host's handle loses commits when the power fails, or does not wait for locks.
func (s *Store) judge(ctx context.Context) error {
	var synchronous, wait int
	if err := s.db.QueryRowContext(ctx, `SELECT synchronous, timeout FROM pragma_synchronous, pragma_busy_timeout`).Scan(&synchronous, &wait); err != nil {
		return err
	}
	if wait == 0 {
		s.opt.Log.WarnContext(ctx, "the database's handle does not wait for the locks of others: calls fail while another connection writes; open it with sqlite.DSN")
	}
	if s.opt.Durability == Strict && synchronous < 2 {
		s.opt.Log.WarnContext(ctx, "the database's handle does not sync every commit: a loss of power may take timers that were accepted; open it with sqlite.DSN",
			"synchronous", synchronous)
	}
	return nil
}

func (r *readiness) close() (err error) {
	for _, statements := range []map[string]*sql.Stmt{r.statements, r.polls} {
		for _, stmt := range statements {
			err = errors.Join(err, stmt.Close())
		}
	}
	return err
}

// Identity returns the id that the database was given when it was made, and its path
// and machine.
func (s *Store) Identity(ctx context.Context) (id, name string, err error) {
	const doing = "identify the database"
	ready, err := s.ready(ctx)
	if err != nil {
		return "", "", classify(doing, err)
	}
	err = s.rows(ctx, doing, sqlIdentity, nil, store.Scan(&id))
	host, _ := os.Hostname() // for people
	return id, "sqlite " + ready.file.path + " on " + host, err
}

// Shared returns nil: a file belongs to one instance.
func (s *Store) Shared() store.Shared { return nil }

// Nodes returns this instance alone.
func (s *Store) Nodes(context.Context) ([]timer.Node, error) {
	node := s.node
	node.Seen = time.Now().UTC() //nolint:forbidigo // of an instance, not of timers
	return []timer.Node{node}, nil
}

// An identity remembers which files were opened. SQLite goes on writing to a
// file that was unlinked or replaced, and its commits there are gone with the
// process.
type identity struct {
	path string
	file os.FileInfo
	log  os.FileInfo // the write-ahead log; nil if it may come and go
}

// logSuffix is the end of the name of a write-ahead log of SQLite.
const logSuffix = "-wal"

// LogSize returns how many bytes the write-ahead log of a database file has, 0 if there is
// none.
func LogSize(path string) int64 {
	info, err := os.Stat(path + logSuffix)
	if err != nil {
		return 0
	}
	return info.Size()
}

// sqlFile asks for the path of a database, without links.
const sqlFile = `SELECT file FROM pragma_database_list WHERE name = 'main'`

// identify finds the file of a database.
func identify(ctx context.Context, db *sql.DB) (i identity, err error) {
	err = db.QueryRowContext(ctx, sqlFile).Scan(&i.path)
	if err == nil {
		i.file, err = stat(i.path)
	}
	return i, err
}

// keepLog remembers the log too. It stays while there is a connection; only who
// owns the file knows that there always is one.
func (i *identity) keepLog() (err error) {
	i.log, err = stat(i.path + logSuffix)
	return err
}

// check returns an error that wraps [timer.ErrFatal] if a path leads to another
// file than it did, or to none.
func (i identity) check() error {
	err := same(i.path, i.file)
	if err == nil && i.log != nil {
		err = same(i.path+logSuffix, i.log)
	}
	return err
}

func same(path string, was os.FileInfo) error {
	now, err := stat(path)
	if err == nil && !os.SameFile(was, now) {
		err = fmt.Errorf("%w: the database file %s was replaced", timer.ErrFatal, path)
	}
	return err
}

func stat(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: the database file is gone: %w", timer.ErrFatal, err)
	case err != nil:
		return nil, fmt.Errorf("stat the database file: %w", err)
	}
	return info, nil
}

const watchInterval = time.Second

// A fileStamp changes when a file is written.
type fileStamp struct {
	size int64
	at   time.Time
}

// stamps returns those of the database and of its write-ahead log.
func (r *readiness) stamps() (all [2]fileStamp) {
	if r == nil {
		return all
	}
	for i, path := range [...]string{r.file.path, r.file.path + logSuffix} {
		if info, err := os.Stat(path); err == nil {
			all[i] = fileStamp{info.Size(), info.ModTime()}
		}
	}
	return all
}

// Watch checks every second whether the file is still the one that was opened,
// so that an idle service notices too. It returns nil when ctx is done, and an
// error that wraps [timer.ErrFatal] if the file is gone or replaced, has the content of an
// older copy, or another process has its lock.
func (s *Store) Watch(ctx context.Context) error {
	var seen [2]fileStamp
	for {
		ready, err := s.ready(ctx)
		if err == nil {
			err = s.intact(ready)
		}
		if now := ready.stamps(); err == nil && now != seen { // something was written
			if err = s.checkContent(ctx); err == nil {
				seen = now
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, timer.ErrFatal):
			return err
		}
		if !pause.For(ctx, watchInterval) {
			return nil
		}
	}
}
