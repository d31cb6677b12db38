package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestFoldChangesNoCount folds between everything that counts, also by two at
// once.
func TestFoldChangesNoCount(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	a, b := own(t, url), own(t, url)
	for round := range 12 {
		var schedules []timer.ScheduleTimer
		var cancels []timer.CancelTimer
		for i := range 10 {
			k := timer.Key{TenantID: timer.TenantID(fmt.Sprint("tenant-", i%3)), ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", i+round))}
			schedules = append(schedules, timer.ScheduleTimer{Key: k, Version: timer.Version{TimestampMS: int64(2 * round), CommandID: "c"}, DueAt: noon})
			if i%4 == 0 {
				cancels = append(cancels, timer.CancelTimer{Key: k, Version: timer.Version{TimestampMS: int64(2*round + 1), CommandID: "c"}})
			}
		}
		foldNow(t, a)
		_, err := a.Schedule(t.Context(), noon, schedules...)
		must(t, err)
		folded := make(chan error)
		go func() {
			_, err := b.fold(t.Context())
			folded <- err
		}()
		_, err = a.Cancel(t.Context(), noon, cancels...)
		must(t, err)
		must(t, a.Update(t.Context(), func(tx timer.Tx) error {
			entries, err := tx.Reach(t.Context(), noon, 2, nil)
			for _, e := range entries {
				must(t, tx.Emit(t.Context(), e.Event()))
			}
			return err
		}))
		foldNow(t, a)
		must(t, <-folded)
		if round%4 == 3 {
			_, err := a.Purge(t.Context(), noon.Add(time.Hour), 7)
			must(t, err)
			rows, err := a.Head(t.Context(), 0, 3)
			must(t, err)
			must(t, a.Delete(t.Context(), rows[0].Place, rows[1].Place))
			must(t, a.Park(t.Context(), noon, rows[2].Place, "refused"))
		}
		countsAreRight(t, a)
	}
	foldNow(t, a)
	countsAreRight(t, b)
	if n := many(t, a, `SELECT count(*) FROM timer_counts`); n != 4 {
		t.Errorf("folded into %d rows, want one for each of 3 tenants and one for all", n)
	}

	for _, text := range []string{`DELETE FROM timer_schedules WHERE tenant_id = 'tenant-1'`, `TRUNCATE timer_schedules`, `TRUNCATE timer_schedules`} {
		_, err := a.db.ExecContext(t.Context(), text)
		must(t, err)
		countsAreRight(t, a)
	}
	foldNow(t, a)
	countsAreRight(t, a)
	if n := many(t, a, `SELECT count(*) FROM timer_counts WHERE tenant_id <> ''`); n != 0 {
		t.Errorf("%d tenants without timers have counts", n)
	}
}

// TestIdleStoreWritesNothing has the database refuse every row of a count.
func TestIdleStoreWritesNothing(t *testing.T) {
	t.Parallel()
	s := own(t, pgtest.URL(t))
	_, err := s.Schedule(t.Context(), noon, timer.ScheduleTimer{
		Key: timer.Key{TenantID: "acme", ServiceCallID: "call-1"}, Version: timer.Version{CommandID: "c"}, DueAt: noon,
	})
	must(t, err)
	foldAny(t, s)
	for _, text := range []string{
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'written'; END $$`,
		`CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON timer_counts FOR EACH STATEMENT EXECUTE FUNCTION refuse()`,
	} {
		_, err := s.db.ExecContext(t.Context(), text)
		must(t, err)
	}
	foldAny(t, s)
	if _, err := s.fold(t.Context()); err == nil {
		t.Error("this test would not see it")
	}
}

func TestFoldsMoreThanOneTransactionDoes(t *testing.T) {
	t.Parallel()
	s := own(t, pgtest.URL(t))
	_, err := s.db.ExecContext(t.Context(), `INSERT INTO timer_counts (tenant_id, scheduled) SELECT 'acme', 1 FROM generate_series(0, $1::integer)`, foldBatch)
	must(t, err)
	foldAny(t, s)
	if got := many(t, s, `SELECT count(*) FROM timer_counts WHERE NOT folded`); got != 0 {
		t.Errorf("%d rows are left", got)
	}
	if got := many(t, s, `SELECT scheduled FROM timer_counts WHERE tenant_id = 'acme'`); got != foldBatch+1 {
		t.Errorf("they sum up to %d, want %d", got, foldBatch+1)
	}
}

// TestWatchReportsCountsThatCannotBeFolded has counts that no role may change: the
// service goes on, and its log says so.
func TestWatchReportsCountsThatCannotBeFolded(t *testing.T) {
	t.Parallel()
	s := own(t, pgtest.URL(t))
	for _, text := range []string{
		`INSERT INTO timer_counts (tenant_id, scheduled) VALUES ('acme', 1)`,
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$`,
		`CREATE TRIGGER refuse BEFORE DELETE ON timer_counts EXECUTE FUNCTION refuse()`,
	} {
		_, err := s.db.ExecContext(t.Context(), text)
		must(t, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	said := listener{to: "not now", stop: stop}
	s.opt.Log = slog.New(slog.NewTextHandler(&said, nil))
	if err := s.Watch(ctx); err != nil {
		t.Errorf("Watch: %v", err)
	}
	if !strings.Contains(said.text, "level=WARN") {
		t.Errorf("it said %q", said.text)
	}
}

// A listener stops the watch when a log says something.
type listener struct {
	to   string
	stop context.CancelFunc
	text string
}

func (l *listener) Write(text []byte) (int, error) {
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

func own(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, Options{Durability: Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func many(t *testing.T, s *Store, query string) (n int) {
	t.Helper()
	must(t, s.db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

// countsAreRight compares what is kept with what there is.
func countsAreRight(t *testing.T, s *Store) {
	t.Helper()
	rows, err := s.db.QueryContext(t.Context(), `
		SELECT tenant_id, count(*) FILTER (WHERE state = 'Scheduled'), count(*) FILTER (WHERE state = 'Reached'), count(*) FILTER (WHERE state = 'Canceled')
		  FROM timer_schedules
		 GROUP BY tenant_id
		 ORDER BY tenant_id`)
	must(t, err)
	defer rows.Close()
	var want []timer.TenantCounts
	var all timer.Counts
	for rows.Next() {
		var c timer.TenantCounts
		must(t, rows.Scan(&c.TenantID, &c.Scheduled, &c.Reached, &c.Canceled))
		want = append(want, c)
		all.Scheduled += c.Scheduled
		all.Reached += c.Reached
		all.Canceled += c.Canceled
		one, err := s.Stats(t.Context(), c.TenantID)
		must(t, err)
		if diff := cmp.Diff(c.Counts, one.Counts); diff != "" {
			t.Errorf("counts of %s (-want +got):\n%s", c.TenantID, diff)
		}
	}
	must(t, rows.Err())
	got, err := s.Tenants(t.Context(), "", 100)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
	st, err := s.Stats(t.Context(), "")
	must(t, err)
	if diff := cmp.Diff(all, st.Counts); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if n := many(t, s, `SELECT count(*) FROM timer_outbox`); int64(n) != st.Outbox {
		t.Errorf("%d events in the outbox, counted are %d", n, st.Outbox)
	}
}
