package app_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// rescheduleMany moves timers of acme.
func (b *bench) rescheduleMany(of timer.Selection, to time.Time) timer.RescheduleTimers {
	b.Helper()
	c := timer.RescheduleTimers{TenantID: "acme", Version: b.version(), Of: of, DueAt: to}
	b.publish("acme", c.CommandID, envelope.RescheduleMany(c))
	b.rest()
	return c
}

func named(calls ...timer.ServiceCallID) timer.Selection { return timer.Selection{Calls: calls} }

// timersOf returns the timers of acme in a database, as far as commands decide them.
func (b *server) timersOf(name string) (all []string) {
	b.Helper()
	db := b.open(name)
	defer db.Close()
	f := timer.Filter{TenantID: "acme"}
	must(b, timer.EachPage(b.Context(), &f, db.List, func(entries []timer.Entry) error {
		for _, e := range entries {
			line := fmt.Sprintf("%s %s", e.ServiceCallID, e.State)
			if e.State == timer.Scheduled {
				line += fmt.Sprintf(" %v %s", e.Version, e.DueAt)
			}
			all = append(all, line)
		}
		return nil
	}))
	return all
}

// TestAScheduleThatWaitsIsMoved by each selection, also after restarts, and fires no sooner than
// it was moved to, though its own time passes while it waits. One that is newer, was canceled
// before, or would expire before is not moved.
func TestAScheduleThatWaitsIsMoved(t *testing.T) {
	onBrokers(t, func(b *bench) {
		limits := app.Options{Quotas: limiter(b, "acme", quota.Limits{Live: 2})}
		_, stop := b.serve(limits)
		began := time.Now()
		soon := began.Add(10 * time.Minute)
		b.schedule("first", began.Add(time.Hour))
		b.schedule("second", began.Add(time.Hour))
		b.rest()
		for _, call := range []string{"id-1", "order-1", "gone-1", "traced", "expires", "stays"} {
			c := timer.ScheduleTimer{Key: keyOf(call), DueAt: soon}
			switch call {
			case "traced":
				c.CorrelationID = "req-7"
			case "expires":
				c.ExpiresAt = began.Add(100 * time.Minute)
			}
			b.send(c)
			b.rest()
		}
		many := timer.ScheduleTimers{TenantID: "acme", Version: b.version()}
		for _, call := range []string{"order-2", "kept"} {
			many.Commands = append(many.Commands, timer.ScheduleTimer{Key: keyOf(call), Version: many.Version, DueAt: soon})
		}
		b.publish("acme", many.CommandID, envelope.ScheduleMany(many))
		b.rest()
		b.cancelMany(timer.Selection{Prefix: "gone-"})
		b.rescheduleMany(named("id-1", "none", "gone-1", "expires"), began.Add(2*time.Hour))
		b.rescheduleMany(timer.Selection{Prefix: "order-"}, began.Add(5*time.Hour))
		stop()
		_, stop = b.serve(limits)
		last := b.rescheduleMany(timer.Selection{Prefix: "order-"}, began.Add(3*time.Hour))
		b.rescheduleMany(timer.Selection{CorrelationID: "req-7"}, began.Add(4*time.Hour))
		b.schedule("order-3", soon) // is newer
		b.rest()
		b.wait(20 * time.Minute)
		stop()
		b.serve(app.Options{})
		b.wait(time.Second)
		for _, call := range []string{"order-1", "order-2"} {
			if e, err := b.store.Get(b.Context(), keyOf(call)); err != nil || e.Version != last.Version || !e.DueAt.Equal(last.DueAt) {
				b.Errorf("%+v, %v, want it as %+v set it", e, err, last)
			}
		}
		at := func(until time.Duration, want ...string) {
			fired := strings.Fields(b.fired(time.Until(began.Add(until))))
			if slices.Sort(fired); !slices.Equal(fired, want) {
				b.Errorf("until %v fired %s, want %s", until, fired, want)
			}
		}
		at(time.Hour-time.Second, "expires", "kept", "order-3", "stays")
		at(time.Hour+time.Second, "first", "second")
		at(2*time.Hour - time.Second)
		at(2*time.Hour+time.Second, "id-1")
		at(3*time.Hour+time.Second, "order-1", "order-2")
		at(4*time.Hour - time.Second)
		at(5*time.Hour+time.Second, "traced")
	})
}

// TestAMoveIsAppliedOnce has a timer of an older version come after it, which stands when the
// move is delivered again.
func TestAMoveIsAppliedOnce(t *testing.T) {
	for name, of := range map[string]timer.Selection{"by prefix": {Prefix: "order-"}, "by name": named("order-1", "order-2")} {
		t.Run(name, func(t *testing.T) {
			onBrokers(t, func(b *bench) {
				_, stop := b.serve(app.Options{})
				due := time.Now().Add(time.Hour)
				b.schedule("order-2", due)
				older := timer.ScheduleTimer{Key: keyOf("order-1"), Version: b.version(), DueAt: due}
				b.wait(time.Second)
				c := b.rescheduleMany(of, due.Add(time.Hour))
				b.send(older)
				b.rest()
				b.publish("acme", "another-message", envelope.RescheduleMany(c))
				b.rest()
				stop()
				b.serve(app.Options{})
				b.publish("acme", "a-third-message", envelope.RescheduleMany(c))
				b.rest()
				if fired := b.fired(90 * time.Minute); fired != "order-1" {
					b.Errorf("fired %q, want the timer that came after the move", fired)
				}
				if fired := b.fired(time.Hour); fired != "order-2" {
					b.Errorf("fired %q, want the timer that was moved", fired)
				}
			})
		})
	}
}

// TestAMoveThatWasInterruptedIsFinishedOnce has the service end before it, in its middle, or
// before it is noted. A command of an older version comes after it, and stands, though each start
// reads all again, as after a kill.
func TestAMoveThatWasInterruptedIsFinishedOnce(t *testing.T) {
	finishedOnce(t, "schedule", func(b *server, due time.Time) {
		b.rescheduleMany(timer.Selection{Prefix: "order-"}, due.Add(time.Hour))
	}, func(b *server, due time.Time) {
		db := b.open(mine)
		defer db.Close()
		moved := due.Add(time.Hour)
		for call, want := range map[string]time.Time{"order-0": moved, "order-599": moved, "order-late": due} {
			if e, err := db.Get(b.Context(), keyOf(call)); err != nil || e.State != timer.Scheduled || !e.DueAt.Equal(want) {
				b.Errorf("%+v, %v, want it due at %s", e, err, want)
			}
		}
	})
}

// TestARecoveryMovesWhatWasMoved reads moves among the commands that a lost or an older database
// lacks: each moves timers that were there then, of commands that came late, were older, newer, or
// came before the copy. The databases have the same timers, and no event comes twice or too early.
func TestARecoveryMovesWhatWasMoved(t *testing.T) {
	longtest.NotShort(t)
	for what, with := range map[string]string{"an older copy": "copy.db", "nothing": "", "it all": "same"} {
		t.Run(what, func(t *testing.T) {
			onServer(t, func(b *server) {
				stop := b.on(mine, app.Options{})
				hour := time.Now().Add(time.Hour)
				late := timer.ScheduleTimer{Key: keyOf("order-late"), Version: b.version(), DueAt: hour}
				b.wait(time.Second)
				b.schedule("order-1", hour)
				b.schedule("order-2", hour)
				b.schedule("order-3", time.Now().Add(time.Minute))
				expires := timer.ScheduleTimer{Key: keyOf("order-4"), DueAt: hour, ExpiresAt: hour.Add(time.Hour)}
				b.send(expires)
				b.rest()
				slow := timer.RescheduleTimers{TenantID: "acme", Version: b.version(), Of: timer.Selection{Prefix: "order-"}, DueAt: hour.Add(9 * time.Hour)}
				b.wait(time.Second)
				b.rescheduleMany(timer.Selection{Prefix: "order-1"}, hour.Add(2*time.Hour))
				b.backUp("copy.db")
				b.fires(2*time.Minute, "order-3")
				b.rescheduleMany(timer.Selection{Prefix: "order-"}, hour.Add(3*time.Hour))
				b.send(late)
				b.rest()
				b.publish("acme", slow.CommandID, envelope.RescheduleMany(slow))
				b.rest()
				b.cancel("order-2")
				b.rest()
				b.rescheduleMany(named("order-1", "order-2", "order-3", "order-5"), hour.Add(4*time.Hour))
				b.schedule("order-5", hour)
				b.rest()
				stop()
				want := b.timersOf(mine)
				if !slices.ContainsFunc(want, func(line string) bool { return strings.HasPrefix(line, "order-late Scheduled") }) || len(want) != 6 {
					b.Errorf("before: %s", want)
				}
				b.wait(duplicates)
				if with != "same" {
					b.replace(with)
				}
				b.recovers(app.Options{}, with != "same")()
				b.on(mine, app.Options{})()
				if diff := cmp.Diff(want, b.timersOf(mine)); diff != "" {
					b.Errorf("recovered (-want +got):\n%s", diff)
				}
				b.on(mine, app.Options{})
				b.fires(time.Until(hour.Add(-time.Second)), "")
			})
		})
	}
}

// TestAStartAsksBeforeItMoves has a copy that lacks only that a timer was moved.
func TestAStartAsksBeforeItMoves(t *testing.T) {
	onServer(t, func(b *server) {
		stop := b.on(mine, app.Options{})
		due := time.Now().Add(5 * time.Minute)
		b.schedule("order-1", due)
		b.rest()
		b.wait(10 * time.Second)
		b.backUp("copy.db")
		b.rescheduleMany(timer.Selection{Prefix: "order-"}, due.Add(5*time.Minute))
		b.wait(10 * time.Second)
		stop()
		b.on(mine, app.Options{AskToRecover: true})() // which has nothing to ask
		b.replace("copy.db")
		if err := b.refused(mine, app.Options{AskToRecover: true}); !errors.Is(err, timer.ErrFatal) {
			b.Errorf("when it has to be asked for: %v, want ErrFatal", err)
		}
		b.recover(false)
		b.on(mine, app.Options{AskToRecover: true})
		b.fires(7*time.Minute, "")
		b.fires(5*time.Minute, "order-1")
	})
}

// TestTheHostMovesManyTimers to a time and by durations, in transactions and without, and in
// steps if there are more than one transaction takes.
func TestTheHostMovesManyTimers(t *testing.T) {
	inBubble(t, func(b *bench) {
		timers := b.program(app.Options{Horizon: 10 * time.Hour})
		began := time.Now()
		newer, related, expires := in("order-1.newer", time.Hour), in("invoice-1", time.Hour), in("order-1.expires", time.Hour)
		newer.Version = timer.Version{TimestampMS: began.Add(time.Hour).UnixMilli(), CommandID: "newer"}
		related.CorrelationID, related.Data = "order-1", []byte("7")
		expires.ExpiresAt = began.Add(2 * time.Hour)
		must(b, timers.Schedule(b.Context(), in("order-1.pay", time.Hour), in("order-10", 80*time.Minute), newer, related, expires))
		move := func(of timer.Selection, m timer.Move, want timer.SelectionCounts) {
			b.Helper()
			n, err := timers.RescheduleWhere(b.Context(), "acme", of, m)
			if diff := cmp.Diff(want, n); err != nil || diff != "" {
				b.Errorf("%+v %+v: %v (-want +got)\n%s", of, m, err, diff)
			}
		}
		prefix := timer.Selection{Prefix: "order-1."}
		move(prefix, timer.Move{To: began.Add(3 * time.Hour)}, timer.SelectionCounts{Changed: 2, Refused: 1, Decided: 2, Named: []timer.ServiceCallID{"order-1.expires"}})
		move(prefix, timer.Move{By: 30 * time.Minute}, timer.SelectionCounts{Changed: 3, Decided: 3})
		move(prefix, timer.Move{By: 30 * time.Minute}, timer.SelectionCounts{Changed: 2, Refused: 1, Decided: 2, Named: []timer.ServiceCallID{"order-1.expires"}})
		move(prefix, timer.Move{By: 9 * time.Hour}, timer.SelectionCounts{Refused: 3, Named: []timer.ServiceCallID{"order-1.expires", "order-1.newer", "order-1.pay"}})
		move(named("order-1.newer", "none"), timer.Move{By: -3 * time.Hour}, timer.SelectionCounts{Changed: 1, Decided: 1})
		no := errors.New("no")
		for _, end := range []error{no, nil} {
			if err := timers.Tx(b.Context(), func(tx *sql.Tx) error {
				n, err := timers.RescheduleWhereTx(b.Context(), tx, "acme", timer.Selection{CorrelationID: "order-1"}, timer.Move{To: began.Add(2 * time.Hour)})
				if n.Changed != 1 {
					b.Errorf("%+v by correlation", n)
				}
				return errors.Join(err, end)
			}); !errors.Is(err, end) {
				b.Error(err)
			}
		}
		for what, m := range map[string]timer.Move{"either": {}, "to which time or": {To: began, By: 1}, "horizon": {To: began.Add(11 * time.Hour)}, "year": {To: began.AddDate(300, 0, 0)}} {
			if _, err := timers.RescheduleWhere(b.Context(), "acme", prefix, m); !errors.Is(err, timer.ErrInvalid) || !strings.Contains(err.Error(), what) {
				b.Errorf("%+v: %v, want one about %q", m, err, what)
			}
		}
		if _, err := timers.RescheduleWhere(b.Context(), "acme", timer.Selection{}, timer.Move{By: 1}); !errors.Is(err, timer.ErrInvalid) {
			b.Errorf("nothing is selected: %v", err)
		}
		b.handled("order-1.newer", began.Add(time.Hour))
		b.handled("order-10", began.Add(80*time.Minute))
		b.handled("order-1.expires", began.Add(90*time.Minute))
		b.handled("invoice-1", began.Add(2*time.Hour))
		b.handled("order-1.pay", began.Add(4*time.Hour))
	})
}
