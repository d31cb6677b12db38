package sqlite_test

import (
	"database/sql"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestLoadLeavesTheSchemaAsItWas loads in vain, and well, into a database whose host
// has an index of its own.
func TestLoadLeavesTheSchemaAsItWas(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]*sql.DB{"file": openHost(t), "memory": migrated(t, "file:load?mode=memory&cache=shared")} {
		exec(t, db, `CREATE INDEX "a host's ""own""" ON timer_schedules (service_call_id) WHERE state = 'Canceled'`)
		before := schemaOf(t, db)
		s := sqlite.New(db, sqlite.Options{})
		c := schedule("call-1")
		record := store.Record{Kind: store.KindTimer, Timer: timer.Entry{
			Key: c.Key, Version: c.Version, State: timer.Scheduled, DueAt: noon, RegisteredAt: noon,
		}}
		for _, end := range []error{errors.New("broken"), io.EOF} {
			asked := false
			err := s.Load(t.Context(), func() (store.Record, error) {
				if asked {
					return store.Record{}, end
				}
				asked = true
				return record, nil
			})
			if (err == nil) != errors.Is(end, io.EOF) {
				t.Errorf("%s: load that ends with %v: %v", name, end, err)
			}
			if diff := cmp.Diff(before, schemaOf(t, db)); diff != "" {
				t.Errorf("%s: schema after a load that ends with %v (-before +after):\n%s", name, end, diff)
			}
			var temp int
			if err := db.QueryRowContext(t.Context(), `PRAGMA temp_store`).Scan(&temp); err != nil || temp != 2 && name == "file" {
				t.Errorf("%s: temp_store is %d, %v, was 2: memory", name, temp, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
