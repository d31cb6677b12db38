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

// TestWhatIsCommittedIsInTheFiles reads, after each commit, rollback and checkpoint, copies
// of the files, which are what a kill of the process would leave. Transactions are larger
// than the page cache, so pages go to the log before the commit, and again after they
// changed, and parts of transactions are rolled back.
func TestWhatIsCommittedIsInTheFiles(t *testing.T) {
	t.Parallel()
	for name, durability := range map[string]sqlite.Durability{"strict": sqlite.Strict, "relaxed": sqlite.Relaxed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Log("seed", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			path := filepath.Join(t.TempDir(), "timers.db")
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{Durability: durability})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			conn, err := s.DB().Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			run := func(text string, args ...any) {
				t.Helper()
				if _, err := conn.ExecContext(t.Context(), text, args...); err != nil {
					t.Fatal(err)
				}
			}
			run(`PRAGMA cache_size = 10`)
			run(`CREATE TABLE numbers (n INTEGER PRIMARY KEY, text TEXT, random INTEGER)`)
			run(`CREATE INDEX randoms ON numbers (random)`)
			for range 60 {
				run(`BEGIN IMMEDIATE`)
				for range 1 + random.IntN(3) {
					run(`SAVEPOINT part`)
					for range random.IntN(60) {
						run(`INSERT OR REPLACE INTO numbers VALUES (?, printf('%.*c', ?, 'x'), ?)`, random.IntN(1000), random.IntN(3000), random.Int64())
					}
					if random.IntN(3) == 0 {
						run(`ROLLBACK TO part`)
					}
					run(`RELEASE part`)
				}
				if random.IntN(5) == 0 {
					run(`ROLLBACK`)
				} else {
					run(`COMMIT`)
				}
				switch random.IntN(10) {
				case 0:
					run(`PRAGMA wal_checkpoint(PASSIVE)`)
				case 1:
					run(`PRAGMA wal_checkpoint(TRUNCATE)`)
				}
				want := contents(t, conn)
				if got := contentsOfCopy(t, path); got != want {
					t.Fatalf("the files have %s, want %s", got, want)
				}
			}
		})
	}
}

func contentsOfCopy(t *testing.T, path string) string {
	t.Helper()
	again := filepath.Join(t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		bytes, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(again+suffix, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", again)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return contents(t, db)
}

func contents(t *testing.T, from interface {
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
},
) string {
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
