package recipes_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/examples/recipes"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timertest"
)

const day = 24 * time.Hour

var hourly = timertest.Options(app.Options{PollingInterval: time.Hour}) // takes less real time than the default

func TestAReportIsMadeEachDayWhateverCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "shop.db")))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), `CREATE TABLE reports (tenant_id TEXT, number INTEGER, due_at INTEGER, PRIMARY KEY (tenant_id, number))`); err != nil {
			t.Fatal(err)
		}
		var reports *recipes.Reports
		svc := timertest.Start(t, timertest.DB(db), hourly, timertest.BeforeStart(func(a *app.App) { reports = recipes.NewReports(a.Timers(), day) }))
		first := time.Now().Add(time.Hour)
		if err := reports.Begin(t.Context(), "acme", first); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*day + 2*time.Hour) // three are due
		svc.Crash()
		time.Sleep(2 * day) // two are due meanwhile, of which one is made late
		svc.Restart()
		time.Sleep(day)
		if err := reports.End(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * day)
		want := []time.Time{first, first.Add(day), first.Add(2 * day), first.Add(3 * day), first.Add(5 * day)}
		if got := made(t, db); !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("reports of %v, want %v", got, want)
		}
	})
}

// made returns the due times of the reports that were made, in their order.
func made(t *testing.T, db *sql.DB) (all []time.Time) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT due_at FROM reports ORDER BY number`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var due int64
		if err := rows.Scan(&due); err != nil {
			t.Fatal(err)
		}
		all = append(all, time.UnixMilli(due))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAReminderIsPutOffUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		var reminders *recipes.Reminders
		svc := timertest.Start(t, hourly, timertest.BeforeStart(func(a *app.App) {
			reminders = recipes.NewReminders(a.Timers(), func(_ context.Context, task string, putOff int) error {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprint(task, " ", putOff))
				return nil
			})
		}))
		at := func(task string, putOff int, in time.Duration) {
			t.Helper()
			if err := reminders.At(t.Context(), "acme", task, putOff, time.Now().Add(in)); err != nil {
				t.Fatal(err)
			}
		}
		at("7", 0, 2*time.Hour)
		at("7", 0, time.Hour) // moved, it has not fired
		at("70", 0, 5*time.Hour)
		time.Sleep(time.Hour + time.Second)
		at("7", 1, time.Hour) // put off
		time.Sleep(time.Hour + time.Second)
		at("7", 2, time.Hour)
		if err := reminders.Done(t.Context(), "acme", "7"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(day)
		svc.AwaitIdle()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"7 0", "7 1", "70 0"}; !slices.Equal(got, want) {
			t.Errorf("reminded of %q, want %q", got, want)
		}
	})
}
