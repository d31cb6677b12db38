package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestFoldChangesNoCount folds between everything that counts, also by two at once. What was
// counted before a fold is right: the contract of stores compares it with what there is.
func TestFoldChangesNoCount(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	a, b := openAt(t, url, relaxed), openAt(t, url, relaxed)
	counted := func() (timer.Stats, []timer.TenantCounts) {
		t.Helper()
		tenants, err := a.Tenants(t.Context(), "", 100)
		must(t, err)
		for _, c := range tenants {
			one, err := a.Stats(t.Context(), c.TenantID)
			must(t, err)
			if one.Counts != c.Counts {
				t.Errorf("%s has %+v in the list, and %+v", c.TenantID, c.Counts, one.Counts)
			}
		}
		all, err := a.Stats(t.Context(), "")
		must(t, err)
		return all, tenants
	}
	foldBoth := func(when string) {
		t.Helper()
		stats, tenants := counted()
		folded := make(chan error)
		go func() {
			_, err := b.fold(t.Context())
			folded <- err
		}()
		foldNow(t, a)
		must(t, <-folded)
		foldNow(t, a)
		nowStats, nowTenants := counted()
		if diff := cmp.Diff([]any{stats, tenants}, []any{nowStats, nowTenants}); diff != "" {
			t.Errorf("%s (-before +after):\n%s", when, diff)
		}
	}
	for round := range int64(5) {
		for i := range 10 {
			k := timer.Key{TenantID: timer.TenantID(fmt.Sprint("tenant-", i%3)), ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", i+int(round)))}
			_, err := a.Schedule(t.Context(), noon, timer.ScheduleTimer{Key: k, Version: timer.Version{TimestampMS: 2 * round, CommandID: "c"}, DueAt: noon})
			must(t, err)
			if i%4 == 0 {
				_, err = a.Cancel(t.Context(), noon, timer.CancelTimer{Key: k, Version: timer.Version{TimestampMS: 2*round + 1, CommandID: "c"}})
				must(t, err)
			}
		}
		must(t, a.Update(t.Context(), func(tx timer.Tx) error {
			entries, err := tx.Reach(t.Context(), noon, 2, nil)
			for _, e := range entries {
				must(t, tx.Emit(t.Context(), e.Event()))
			}
			return err
		}))
		foldBoth(fmt.Sprint("round ", round))
	}
	if n := many(t, a, `SELECT count(*) FROM timer_counts`); n != 4 {
		t.Errorf("folded into %d rows, want one for each of 3 tenants and one for all", n)
	}
	for _, c := range []struct {
		text    string
		tenants int // that are left
	}{{`DELETE FROM timer_schedules WHERE tenant_id = 'tenant-1'`, 2}, {`TRUNCATE timer_schedules`, 0}, {`TRUNCATE timer_schedules`, 0}} {
		run(t, a, c.text)
		foldBoth(c.text)
		if n := many(t, a, `SELECT count(*) FROM timer_counts WHERE tenant_id <> ''`); n != c.tenants {
			t.Errorf("%s: %d tenants have counts, want %d", c.text, n, c.tenants)
		}
	}
}

// TestIdleStoreWritesNothing has the database refuse every row of a count.
func TestIdleStoreWritesNothing(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.URL(t), relaxed)
	_, err := s.Schedule(t.Context(), noon, timer.ScheduleTimer{
		Key: timer.Key{TenantID: "acme", ServiceCallID: "call-1"}, Version: timer.Version{CommandID: "c"}, DueAt: noon,
	})
	must(t, err)
	foldAny(t, s)
	run(t, s, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'written'; END $$`)
	run(t, s, `CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON timer_counts FOR EACH STATEMENT EXECUTE FUNCTION refuse()`)
	foldAny(t, s)
	if _, err := s.fold(t.Context()); err == nil {
		t.Error("this test would not see it")
	}
}

// TestWatchReportsCountsThatCannotBeFolded has counts that no role may change: the
// service goes on, and its log says so.
func TestWatchReportsCountsThatCannotBeFolded(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.URL(t), relaxed)
	run(t, s, `INSERT INTO timer_counts (tenant_id, scheduled) VALUES ('acme', 1)`)
	run(t, s, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$`)
	run(t, s, `CREATE TRIGGER refuse BEFORE DELETE ON timer_counts EXECUTE FUNCTION refuse()`)
	ctx, stop := context.WithCancel(t.Context())
	said := stopWriter{to: "not now", stop: stop}
	s.opt.Log = slog.New(slog.NewTextHandler(&said, nil))
	if err := s.Watch(ctx); err != nil {
		t.Errorf("Watch: %v", err)
	}
	if !strings.Contains(said.text, "level=WARN") {
		t.Errorf("it said %q", said.text)
	}
}

// A stopWriter stops the watch when a log says something.
type stopWriter struct {
	to   string
	stop context.CancelFunc
	text string
}

func (l *stopWriter) Write(text []byte) (int, error) {
	l.text += string(text)
	if strings.Contains(l.text, l.to) {
		l.stop()
	}
	return len(text), nil
}

func foldNow(t *testing.T, s *Store) {
	t.Helper()
	_, err := s.fold(t.Context())
	must(t, err)
}

func foldAny(t *testing.T, s *Store) {
	t.Helper()
	_, err := s.foldAny(t.Context())
	must(t, err)
}

var (
	relaxed = Options{Durability: Relaxed}
	must    = storetest.Must
)

func openAt(t *testing.T, url string, opt Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, opt)
	return storetest.Opened(t, s, err)
}

func run(t *testing.T, s *Store, text string, args ...any) {
	t.Helper()
	_, err := s.db.ExecContext(t.Context(), text, args...)
	must(t, err)
}

func many(t *testing.T, s *Store, query string) (n int) {
	t.Helper()
	must(t, s.db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}
