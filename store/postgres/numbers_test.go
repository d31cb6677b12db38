package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestNumbersGoOnBehindRowsThatWereMoved moves rows into a new database without the
// state of its sequence, as logical replication does.
func TestNumbersGoOnBehindRowsThatWereMoved(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	before := open(t, place, relaxed)
	lead := own(t, before)
	for i := range 3 {
		emit(t, before, timer.ServiceCallID(fmt.Sprint("refused-", i)))
	}
	old := deferAll(t, lead)
	lead.Release()

	moved := pgtest.URL(t)
	db := migrated(t, moved)
	u, err := url.Parse(place)
	must(t, err)
	run(t, db, `INSERT INTO timer_outbox_deferred SELECT * FROM `+u.Query().Get("search_path")+`.timer_outbox_deferred`)
	after := open(t, moved, relaxed)
	lead = own(t, after)
	defer lead.Release()
	emit(t, after, "accepted")
	accepted := deleteHead(t, lead)
	if len(accepted) != 1 || accepted[0].Seq <= old[len(old)-1].Seq {
		t.Errorf("new rows %v, want one behind %v", accepted, old)
	}
	left, err := lead.Deferred(t.Context(), noon, "", 100, 100)
	if err != nil || len(left) != len(old) {
		t.Errorf("%d deferred events are left, %v, want %d", len(left), err, len(old))
	}
}

// TestNumbersNeverGoBack has an instance start again and again while others append events. What
// they append meanwhile must not look like rows that were moved here.
func TestNumbersNeverGoBack(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	appending, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for i := range 2 {
		s := open(t, place, relaxed)
		defer own(t, s).Release()
		for j := range 2 {
			busy.Go(func() {
				for n := 0; appending.Err() == nil; n++ {
					if err := storetest.Emit(t.Context(), s, timer.ServiceCallID(fmt.Sprint(i, j, n))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	var log bytes.Buffer
	starting := open(t, place, postgres.Options{Durability: postgres.Relaxed, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 50 {
		own(t, starting).Release()
	}
	stop()
	busy.Wait()
	var twice int
	must(t, starting.DB().QueryRow(`SELECT count(*) - count(DISTINCT seq) FROM timer_outbox`).Scan(&twice))
	if twice > 0 || log.Len() > 0 {
		t.Errorf("%d events have the number of another one, log:\n%s", twice, &log)
	}
}

// TestASequenceThatBeginsAgainTakesNoEvent has numbers given twice while the service
// runs. Events that wait stay, and those whose number is taken are deferred later.
func TestASequenceThatBeginsAgainTakesNoEvent(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	lead := own(t, s)
	defer lead.Release()
	for i := range 3 {
		emit(t, s, timer.ServiceCallID(fmt.Sprint("refused-", i)))
	}
	old := deferAll(t, lead)
	run(t, s.DB(), fmt.Sprintf(`ALTER TABLE timer_outbox ALTER COLUMN seq RESTART WITH %d`, old[0].Seq))
	emit(t, s, "accepted")
	if accepted := deleteHead(t, lead); len(accepted) != 1 || accepted[0].Seq != old[0].Seq {
		t.Fatalf("new rows %v, want one with number %d", accepted, old[0].Seq)
	}
	emit(t, s, "taken")
	taken, err := lead.Head(t.Context(), 0, 1)
	if err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	if err := s.Transact(t.Context(), func(tx *sql.Tx) error {
		there, err := s.TakeEvent(t.Context(), tx, taken[0].Place)
		if !there {
			t.Error("an event is gone")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	left, err := lead.Deferred(t.Context(), noon, "", 100, 100)
	if err != nil || len(left) != len(old) {
		t.Errorf("%d deferred events are left, %v, want %d", len(left), err, len(old))
	}
}
