package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/pgtest"
)

// TestAConnectionThatIsClosedMeanwhileIsAnError closes connections while they are taken, as
// database/sql does when the context of a transaction ends while a handler schedules in it.
func TestAConnectionThatIsClosedMeanwhileIsAnError(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", pgtest.Server(t))
	must(t, err)
	defer db.Close()
	for range 5000 {
		conn, err := db.Conn(t.Context())
		must(t, err)
		var closing sync.WaitGroup
		closing.Go(func() { _ = conn.Close() })
		for err == nil {
			err = onDriver(t.Context(), conn, func(context.Context, *pgx.Conn) error { return nil })
		}
		if !errors.Is(err, sql.ErrConnDone) {
			t.Fatal(err)
		}
		closing.Wait()
	}
}
