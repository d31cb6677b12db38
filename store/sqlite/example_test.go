package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A host has the timers in its own database.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(dir, "host.db")))
	if err != nil {
		fmt.Println(err)
	}
	defer db.Close()
	ctx := context.Background()
	fmt.Println(sqlite.Migrate(ctx, db)) // before the first start, and after an update

	store := sqlite.New(db, sqlite.Options{})
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	results, err := store.Schedule(ctx, now, timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: "order-1"},
		Version: timer.Version{TimestampMS: now.UnixMilli(), CommandID: "c-1"},
		DueAt:   now.Add(time.Hour),
	})
	fmt.Println(results[0].Outcome, err)
	entry, err := store.Get(ctx, timer.Key{TenantID: "acme", ServiceCallID: "order-1"})
	fmt.Println(entry.State, entry.DueAt.Format(time.RFC3339), err)
	// Output:
	// <nil>
	// scheduled <nil>
	// Scheduled 2030-01-01T01:00:00Z <nil>
}
