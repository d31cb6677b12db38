package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// TestTableThatACrashEmptiesIsRefused makes each table UNLOGGED.
func TestTableThatACrashEmptiesIsRefused(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	admin := migrated(t, place)
	rows, err := admin.QueryContext(t.Context(), `SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'`)
	must(t, err)
	defer rows.Close()
	tables := 0
	for ; rows.Next(); tables++ {
		var table string
		must(t, rows.Scan(&table))
		run(t, admin, `ALTER TABLE `+table+` SET UNLOGGED`)
		refused(t, place, "UNLOGGED: "+table)
		run(t, admin, `ALTER TABLE `+table+` SET LOGGED`)
	}
	must(t, rows.Err())
	if tables < 9 {
		t.Errorf("%d tables were tried", tables)
	}
}

// TestRowsThatAreHiddenAreRefused puts row-level security on tables, as some hosting services
// do with each table: all rows disappear from a role that does not own them.
func TestRowsThatAreHiddenAreRefused(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	limited := withFewRights(t, place)
	admin := handle(t, place)
	run(t, admin, `CREATE TABLE timer_of_the_host (id bigint)`) // the role may not read it, and need not
	running := open(t, limited, postgres.Options{Durability: postgres.Strict})
	for _, table := range []string{"timer_schedules", "timer_outbox"} {
		run(t, admin, `ALTER TABLE `+table+` ENABLE ROW LEVEL SECURITY`)
		refused(t, limited, "row-level security hides rows from the role: "+table)
		if err := running.Watch(t.Context()); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), table) {
			t.Errorf("Watch: %v", err)
		}
		open(t, place, relaxed) // the owner sees all rows
		run(t, admin, `ALTER TABLE `+table+` DISABLE ROW LEVEL SECURITY`)
	}
	open(t, limited, relaxed)
}

// refused checks that a database can't be opened, with an error that says why.
func refused(t *testing.T, place, says string) {
	t.Helper()
	s, err := postgres.Open(t.Context(), place, relaxed)
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), says) {
		t.Errorf("Open: %v, want ErrFatal and %q", err, says)
	}
}

// TestTriggersThatMayDropRowsAreRefused tries a trigger and a rule on each of our own tables.
// On timer_schedules a host may have triggers: a row that one of them drops is no success.
func TestTriggersThatMayDropRowsAreRefused(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	admin := migrated(t, place)
	running := open(t, place, relaxed)
	run(t, admin,
		`CREATE FUNCTION drop_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`,
		`CREATE TRIGGER notify AFTER INSERT ON timer_outbox FOR EACH ROW EXECUTE FUNCTION drop_row()`) // drops nothing
	for _, table := range []string{"timer_outbox", "timer_outbox_deferred", "timer_outbox_parked", "timer_counts", "timer_awaited", "timer_database", "timer_decisions", "timer_firing", "timer_inbox", "timer_numbers", "timer_positions", "timer_schema"} {
		for _, trap := range []string{"TRIGGER trap BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION drop_row()", "RULE trap AS ON DELETE TO %s DO INSTEAD NOTHING"} {
			run(t, admin, fmt.Sprintf("CREATE "+trap, table))
			refused(t, place, "may drop rows in silence: "+table)
			if err := running.Watch(t.Context()); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), table) {
				t.Errorf("Watch: %v", err)
			}
			kind, _, _ := strings.Cut(trap, " ")
			run(t, admin, "DROP "+kind+" trap ON "+table)
		}
	}
	_, err := running.Schedule(t.Context(), noon, schedule("known"))
	must(t, err)
	run(t, admin, `CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON timer_schedules FOR EACH ROW EXECUTE FUNCTION drop_row()`)
	open(t, place, relaxed)
	for _, call := range []timer.ServiceCallID{"known", "new"} {
		if results, err := running.Cancel(t.Context(), noon, cancel(call)); err != nil || !errors.Is(results[0].Err, timer.ErrInvalid) {
			t.Errorf("%s was dropped: %v, %v, want it refused", call, results, err)
		}
	}
	must(t, running.Update(t.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(t.Context(), noon.Add(time.Hour), 10, nil)
		if len(entries) > 0 {
			t.Errorf("%v fired, and was not marked", entries)
		}
		return err
	}))
}
