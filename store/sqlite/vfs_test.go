package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/event-service-agent/timer-service/store/sqlite"
)

// A scratch is a table in the database of a store, and the store's two connections that
// write. Their page caches are small, so that transactions move pages to the log before
// they end.
type scratch struct {
	*testing.T
	path  string
	conns [2]*sql.Conn
}

func newScratch(t *testing.T, durability sqlite.Durability) *scratch {
	t.Helper()
	s := &scratch{T: t, path: filepath.Join(t.TempDir(), "timers.db")}
	st, err := sqlite.Open(t.Context(), s.path, sqlite.Options{Durability: durability})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	other, err := st.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	s.conns = [2]*sql.Conn{st.Conn(), other}
	for conn := range s.conns {
		s.run(conn, `PRAGMA cache_size = 10`)
	}
	s.run(0, `CREATE TABLE numbers (n INTEGER PRIMARY KEY, text TEXT, random INTEGER)`)
	s.run(0, `CREATE INDEX randoms ON numbers (random)`)
	return s
}

// run executes a statement on one of the connections.
func (s *scratch) run(conn int, text string, args ...any) {
	s.Helper()
	if _, err := s.conns[conn].ExecContext(s.Context(), text, args...); err != nil {
		s.Fatalf("%s: %v", text, err)
	}
}

const (
	insert = `INSERT OR REPLACE INTO numbers VALUES (?, printf('%.*c', ?, 'x'), ?)`
	fill   = `WITH RECURSIVE k (n) AS (SELECT ? UNION ALL SELECT n + 1 FROM k LIMIT ?) INSERT INTO numbers SELECT n, printf('%.*c', 2000, 'x'), random() FROM k`
)

// check compares copies of the files, which are what a kill of the process would leave,
// with what both connections read.
func (s *scratch) check() {
	s.Helper()
	want := contents(s.T, s.conns[0])
	if got := contents(s.T, s.conns[1]); got != want {
		s.Fatalf("one connection reads %s, the other %s", want, got)
	}
	again := filepath.Join(s.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		bytes, err := os.ReadFile(s.path + suffix)
		if err != nil {
			s.Fatal(err)
		}
		if err := os.WriteFile(again+suffix, bytes, 0o600); err != nil {
			s.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", again)
	if err != nil {
		s.Fatal(err)
	}
	defer db.Close()
	if got := contents(s.T, db); got != want {
		s.Fatalf("the files have %s, want %s", got, want)
	}
}

type querier interface {
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
}

func contents(t *testing.T, from querier) string {
	t.Helper()
	var rows, length, sum int64
	var check string
	err := from.QueryRowContext(t.Context(), `SELECT count(*), coalesce(sum(length(text)), 0), coalesce(sum(random % 1000000), 0) FROM numbers`).Scan(&rows, &length, &sum)
	if err == nil {
		err = from.QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&check)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d rows of %d bytes, sum %d, integrity %s", rows, length, sum, check)
}

// Two connections write in turns. Transactions change pages again that are in the log
// already, and are rolled back, in part or as a whole.
func TestWhatIsCommittedIsInTheFiles(t *testing.T) {
	t.Parallel()
	for name, durability := range map[string]sqlite.Durability{"strict": sqlite.Strict, "relaxed": sqlite.Relaxed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Log("seed", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			s := newScratch(t, durability)
			for range 60 {
				conn := random.IntN(2)
				s.run(conn, `BEGIN IMMEDIATE`)
				for range 1 + random.IntN(3) {
					s.run(conn, `SAVEPOINT part`)
					for range random.IntN(60) {
						s.run(conn, insert, random.IntN(1000), random.IntN(3000), random.Int64())
					}
					if random.IntN(3) == 0 {
						s.run(conn, `ROLLBACK TO part`)
					}
					s.run(conn, `RELEASE part`)
				}
				if random.IntN(3) == 0 {
					s.run(conn, `ROLLBACK`)
				} else {
					s.run(conn, `COMMIT`)
				}
				switch random.IntN(10) {
				case 0:
					s.run(conn, `PRAGMA wal_checkpoint(PASSIVE)`)
				case 1:
					s.run(conn, `PRAGMA wal_checkpoint(TRUNCATE)`)
				}
				s.check()
			}
		})
	}
}

// Pages that were rolled back must not be written later, where another connection has
// written meanwhile.
func TestWhatIsRolledBackIsNotWritten(t *testing.T) {
	t.Parallel()
	s := newScratch(t, sqlite.Strict)
	for i := range 50 {
		s.run(0, `PRAGMA wal_checkpoint(TRUNCATE)`)
		s.run(0, `BEGIN IMMEDIATE`)
		s.run(0, fill, 1_000_000, 20+i)
		s.run(0, `ROLLBACK`)
		s.run(1, fill, 1000*i, 1+i%7)
		s.run(0, fill, 1000*i+500, 1)
		s.check()
	}
}

// A transaction whose pages can't be written fails as a whole, whichever write fails; one
// that could be written later does not.
func TestWriteToTheLogFails(t *testing.T) { //nolint:paralleltest // all logs fail
	s := newScratch(t, sqlite.Strict)
	sqlite.FailLog()
	s.run(0, fill, 0, 100)
	before := contents(t, s.conns[0])

	exec := func(text string, args ...any) error {
		_, err := s.conns[0].ExecContext(t.Context(), text, args...)
		return err
	}
	fails := func(text string, args ...any) {
		t.Helper()
		sqlite.LogFails.Store(1)
		if exec(text, args...) == nil || sqlite.LogFails.Swap(0) > 0 {
			t.Errorf("%s: no write failed, or no error", text)
		}
	}
	fails(fill, 1000, 3) // at the commit; the rollback reads the first page
	s.check()
	s.run(0, `BEGIN IMMEDIATE`)
	fails(fill, 1000, 500) // when the buffer is full
	_ = exec(`ROLLBACK`)   // SQLite has done that
	s.check()
	if after := contents(t, s.conns[1]); after != before {
		t.Fatalf("%s, want %s", after, before)
	}

	// A statement reads a page that could not be written yet. SQLite undoes that statement
	// alone, or the transaction.
	for _, text := range []string{`UPDATE numbers SET n = n + 1000000`, `SELECT sum(length(text)) FROM numbers`} {
		s.run(0, `BEGIN IMMEDIATE`)
		s.run(0, fill, 1000, 30)
		fails(text)
		committed := exec(`COMMIT`) == nil
		s.check()
		var rows int
		if err := s.conns[1].QueryRowContext(t.Context(), `SELECT count(*) FROM numbers WHERE n >= 1000`).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		if committed && rows != 30 || !committed && rows != 0 {
			t.Errorf("after %s: committed: %t, with %d of 30 rows", text, committed, rows)
		}
		s.run(0, `DELETE FROM numbers WHERE n >= 1000`)
	}
}

// Where a write may tear what is beside it, SQLite repeats the last frame of a commit up to
// the end of a sector, and writes the last of these in two parts.
func TestCommitThatIsPadded(t *testing.T) {
	t.Parallel()
	s := newScratch(t, sqlite.Strict) // which registers the VFS
	db, err := sql.Open("sqlite", "file:"+s.path+"?psow=0&vfs=timer-service&_pragma=synchronous(full)&_pragma=wal_autocheckpoint(0)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s.run(0, `CREATE TABLE zeros (zeros BLOB)`)
	for i := range 400 {
		if _, err := db.ExecContext(t.Context(), `INSERT INTO zeros VALUES (zeroblob(9000))`); err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := s.conns[0].QueryRowContext(t.Context(), `SELECT count(*) FROM zeros WHERE zeros = zeroblob(9000)`).Scan(&rows); err != nil || rows != i+1 {
			t.Fatalf("after %d commits: %d rows, %v", i+1, rows, err)
		}
	}
	s.check()
}

// In exclusive mode SQLite keeps the lock of the writer when it rolls back.
func TestWhatIsRolledBackInExclusiveModeIsNotWritten(t *testing.T) {
	t.Parallel()
	s := newScratch(t, sqlite.Strict) // which registers the VFS
	s.path = filepath.Join(t.TempDir(), "exclusive.db")
	open := func() *sql.Conn {
		db, err := sql.Open("sqlite", "file:"+s.path+"?vfs=timer-service&_pragma=journal_mode(wal)&_pragma=cache_size(10)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	s.conns[0] = open()
	s.run(0, `CREATE TABLE numbers (n INTEGER PRIMARY KEY, text TEXT, random INTEGER)`)
	s.run(0, `PRAGMA wal_checkpoint(TRUNCATE)`)
	s.run(0, `PRAGMA locking_mode = EXCLUSIVE`)
	s.run(0, `BEGIN IMMEDIATE`)
	s.run(0, fill, 1_000_000, 40)
	s.run(0, `ROLLBACK`)
	s.run(0, `PRAGMA locking_mode = NORMAL`)
	s.run(0, `SELECT count(*) FROM sqlite_schema`)
	s.conns[1] = open()
	s.run(1, fill, 0, 60)
	s.check()
}
