package postgresd

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/event-service-agent/timer-service/internal/freeport"
)

// TestAStandbyIsPromoted promotes a standby that has everything, and then the standby of that
// one, without the last but one transaction and what came after it.
func TestAStandbyIsPromoted(t *testing.T) {
	t.Parallel()
	ports := [2]int{port(t), port(t)}
	primary, err := Start(t.Context(), t.TempDir(), ports[0])
	if errors.Is(err, ErrNotInstalled) && os.Getenv("TIMER_TEST_REQUIRE") == "" {
		t.Skip("SKIPPED: ", err)
	}
	must(t, err)
	t.Cleanup(primary.Kill)
	do(t, primary, `CREATE TABLE numbers (number int)`)
	do(t, primary, `INSERT INTO numbers VALUES (1)`)

	first, err := StartStandby(t.Context(), primary, t.TempDir(), ports[1])
	must(t, err)
	t.Cleanup(first.Kill)
	do(t, primary, `INSERT INTO numbers VALUES (2)`)
	must(t, first.CatchUp(t.Context()))
	primary.Kill()
	primary, err = first.Promote(t.Context())
	must(t, err)
	if got := numbers(t, primary); got != "1 2" {
		t.Errorf("a standby that had caught up has %s, want 1 2", got)
	}

	second, err := StartStandby(t.Context(), primary, t.TempDir(), ports[0])
	must(t, err)
	t.Cleanup(second.Kill)
	must(t, second.Pause(t.Context()))
	for _, number := range []string{"3", "4", "5"} {
		do(t, primary, `INSERT INTO numbers VALUES (`+number+`)`)
	}
	must(t, second.Receive(t.Context()))
	xid, err := strconv.ParseInt(ask(t, primary, `SELECT xmin::text FROM numbers WHERE number = 4`), 10, 64)
	must(t, err)
	primary.Kill()
	last, err := second.PromoteBefore(t.Context(), xid)
	must(t, err)
	t.Cleanup(last.Kill)
	if got := numbers(t, last); got != "1 2 3" {
		t.Errorf("a standby that lacks 4 and what came after it has %s, want 1 2 3", got)
	}
	do(t, last, `INSERT INTO numbers VALUES (6)`)
}

func port(t *testing.T) int {
	t.Helper()
	port, err := freeport.Find(t.Context())
	must(t, err)
	return port
}

func do(t *testing.T, s *Server, text string) {
	t.Helper()
	conn := connect(t, s)
	_, err := conn.Exec(t.Context(), text)
	must(t, err)
	must(t, conn.Close(t.Context()))
}

func numbers(t *testing.T, s *Server) string {
	t.Helper()
	return ask(t, s, `SELECT string_agg(number::text, ' ' ORDER BY number) FROM numbers`)
}

func ask(t *testing.T, s *Server, question string) (answer string) {
	t.Helper()
	conn := connect(t, s)
	must(t, conn.QueryRow(t.Context(), question).Scan(&answer))
	must(t, conn.Close(t.Context()))
	return answer
}

func connect(t *testing.T, s *Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL())
	must(t, err)
	return conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
