package database_test

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/bench/database"
)

// each runs a test on a new database of each kind.
func each(t *testing.T, fn func(*testing.T, database.Database)) {
	t.Parallel()
	for _, kind := range []database.Kind{database.SQLite, database.Postgres} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
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

// TestFill puts timers in, and expects of the store that it knows them as if it
// had made them.
func TestFill(t *testing.T) {
	each(t, func(t *testing.T, d database.Database) {
		now := timer.RoundDown(time.Now().UTC())
		late := database.Load{Timers: 25, Tenant: "late-", Tenants: 3, From: now.Add(-time.Hour)}
		if err := d.Fill(t.Context(), late, io.Discard); err != nil {
			t.Fatal(err)
		}
		waiting := database.Load{Timers: 1000, Tenant: "waiting-", Tenants: 20, From: now.Add(time.Hour), Over: time.Hour}
		if err := d.Fill(t.Context(), waiting, io.Discard); err != nil {
			t.Fatal(err)
		}
		s, err := d.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stats, err := s.Stats(t.Context(), "")
		if err != nil || stats.Scheduled != 1025 || !stats.NextDue.Equal(late.From) {
			t.Errorf("stats %+v, %v", stats, err)
		}
		tenants, err := s.Tenants(t.Context(), "", 100)
		if err != nil || len(tenants) != 23 || tenants[0].Scheduled != 9 || tenants[1].Scheduled != 8 {
			t.Errorf("tenants %+v, %v", tenants, err)
		}
		next, err := s.NextDue(t.Context(), now)
		if err != nil || next.Before(waiting.From) || next.After(waiting.From.Add(waiting.Over)) {
			t.Errorf("the next is due at %v, %v", next, err)
		}
		var reached []timer.Entry
		if err := s.Update(t.Context(), func(tx timer.Tx) (err error) {
			reached, err = tx.Reach(t.Context(), now, 100, nil)
			return err
		}); err != nil || len(reached) != 25 {
			t.Errorf("%d were reached, %v", len(reached), err)
		}
		for _, e := range reached {
			if err := errors.Join(e.Key.Validate(), e.Version.Validate()); err != nil {
				t.Errorf("%+v: %v", e, err)
			}
			if !e.DueAt.Equal(late.From) || e.CorrelationID == "" || e.CommandID == "" {
				t.Errorf("reached %+v", e)
			}
		}
	})
}

func TestParts(t *testing.T) {
	each(t, func(t *testing.T, d database.Database) {
		if err := d.Fill(t.Context(), database.Load{Timers: 1000, Tenant: "t", Tenants: 10, From: time.Now().Add(time.Hour)}, io.Discard); err != nil {
			t.Fatal(err)
		}
		parts, err := d.Parts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"timer_schedules", "timer_outbox", "idx_timer_schedules_tenant_due", "idx_timer_schedules_over"} {
			if !slices.ContainsFunc(parts, func(p database.Part) bool { return p.Name == name }) {
				t.Errorf("%s is not among %+v", name, parts)
			}
		}
	})
}

// TestUsage has the server work, and expects that in the usage.
func TestUsage(t *testing.T) {
	t.Parallel()
	d, err := database.New(t.Context(), database.Options{Kind: database.Postgres, URL: pgtest.Server(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Drop(); err != nil {
			t.Error(err)
		}
	}()
	s, err := d.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before, err := d.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if _, err := s.Schedule(t.Context(), now, timer.ScheduleTimer{
		Key: timer.Key{TenantID: "acme", ServiceCallID: "c-1"}, Version: timer.Version{TimestampMS: 1, CommandID: "1"}, DueAt: now,
	}); err != nil {
		t.Fatal(err)
	}
	after, err := d.Usage(t.Context())
	if err == nil && after == 0 {
		t.Skip("SKIPPED: the processes of the server can't be seen from here")
	}
	if err != nil || after <= before {
		t.Errorf("used %+v, then %+v, %v", before, after, err)
	}
}
