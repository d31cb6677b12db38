package postgres_test

import (
	"testing"

	"github.com/event-service-agent/timer-service/internal/longtest"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/storetest"
)

// TestOwnHandle runs the contract on a database that the store opens itself, with the rights
// that docs/deploying.md names.
func TestOwnHandle(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Store { return open(t, withFewRights(t, pgtest.URL(t)), relaxed) })
}

// TestDatabase runs the tests that all kinds of databases have.
func TestDatabase(t *testing.T) {
	t.Parallel()
	storetest.RunDatabase(t, kind)
}

// TestHostHandle runs the contract on the handle of a host, which prepares its
// statements as pgx does by default.
func TestHostHandle(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	storetest.Run(t, func(t testing.TB) storetest.Store { return postgres.New(migrated(t, pgtest.URL(t)), relaxed) })
}

// TestTogether runs two stores on one database.
func TestTogether(t *testing.T) {
	t.Parallel()
	storetest.Together(t, func(t testing.TB) (a, b storetest.Store) {
		url := pgtest.URL(t)
		return open(t, url, relaxed), open(t, url, relaxed)
	})
}

func BenchmarkPostgres(b *testing.B) {
	storetest.Bench(b, func(t testing.TB) storetest.Store { return open(t, pgtest.URL(t), postgres.Options{}) })
}
