package inside_test

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/bench/database"
	"github.com/event-service-agent/timer-service/verify/bench/inside"
)

// each runs a test on a new database of each kind.
func each(t *testing.T, fn func(*testing.T, database.Database)) {
	if testing.Short() {
		t.Skip("measures for seconds; left out by -short")
	}
	for _, kind := range []database.Kind{database.SQLite, database.Postgres} {
		t.Run(string(kind), func(t *testing.T) {
			opt := database.Options{Kind: kind, Dir: t.TempDir()}
			if kind == database.Postgres {
				opt.URL = pgtest.Server(t)
			}
			d, err := database.New(t.Context(), opt)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := d.Drop(); err != nil {
					t.Error(err)
				}
			})
			fn(t, d)
		})
	}
}

// TestMeasure measures, and checks what that leaves behind.
func TestMeasure(t *testing.T) {
	each(t, func(t *testing.T, d database.Database) {
		from := time.Now().Add(time.Hour)
		c, err := inside.Measure(t.Context(), d, inside.CostOptions{Tenants: 10, From: from, Over: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range map[string]inside.Price{
			"alone": c.Alone, "schedule": c.Schedule, "next due": c.NextDue, "fire": c.Fire, "forward": c.Forward,
		} {
			if p.CPU <= 0 || p.Wall <= 0 {
				t.Errorf("%s costs %+v", name, p)
			}
		}
		left := stats(t, d)
		if left.Scheduled != 20_200 || left.Reached != 20_000 || left.Outbox != 0 || left.NextDue.Before(from.Truncate(time.Second)) {
			t.Errorf("left %+v", left)
		}
	})
}

func stats(t *testing.T, d database.Database) timer.Stats {
	t.Helper()
	r, err := d.OpenReader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stats, err := r.Stats(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return stats
}
