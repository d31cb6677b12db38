package app_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// cancelMany cancels timers of acme that a prefix or a correlation id selects.
func (b *bench) cancelMany(of timer.Selection) {
	b.Helper()
	c := timer.CancelTimers{TenantID: "acme", Version: b.version(), Of: of}
	b.publish("acme", c.CommandID, envelope.CancelMany(c))
	b.rest()
}

// TestAScheduleThatWaitsIsCanceled by each kind of cancellation, also after restarts, and one
// that is newer than the cancellation is not.
func TestAScheduleThatWaitsIsCanceled(t *testing.T) {
	onBrokers(t, func(b *bench) {
		limits := app.Options{Quotas: limiter(b, "acme", quota.Limits{Live: 2})}
		_, stop := b.serve(limits)
		due := time.Now().Add(time.Hour)
		b.schedule("first", due)
		b.schedule("second", due)
		b.rest()
		for _, call := range []string{"id-1", "order-1", "order-2", "other", "traced"} {
			c := timer.ScheduleTimer{Key: keyOf(call), DueAt: due}
			if call == "traced" {
				c.CorrelationID = "req-7"
			}
			b.send(c)
			b.rest()
		}
		many := timer.ScheduleTimers{TenantID: "acme", Version: b.version()}
		for _, call := range []timer.ServiceCallID{"order-3", "kept"} {
			many.Commands = append(many.Commands, timer.ScheduleTimer{Key: timer.Key{TenantID: "acme", ServiceCallID: call}, Version: many.Version, DueAt: due})
		}
		b.publish("acme", many.CommandID, envelope.ScheduleMany(many))
		b.rest()
		b.cancel("id-1")
		b.cancelMany(timer.Selection{Prefix: "order-"})
		stop()
		_, stop = b.serve(limits)
		b.cancelMany(timer.Selection{CorrelationID: "req-7"})
		b.schedule("order-4", due)
		b.rest()
		if waits := b.waits("acme", timer.WaitQuota); waits != 7 {
			b.Errorf("%d wait, want 7", waits)
		}
		stop()
		b.serve(app.Options{})
		fired := strings.Fields(b.fired(2 * time.Hour))
		if slices.Sort(fired); !slices.Equal(fired, []string{"first", "kept", "order-4", "other", "second"}) || b.waits("acme", timer.WaitQuota) != 0 {
			b.Errorf("fired %s, %d wait", fired, b.waits("acme", timer.WaitQuota))
		}
	})
}

// TestTheHostCancelsAndMovesWhatWaits for a quota, by each selection, and in a transaction that is
// rolled back.
func TestTheHostCancelsAndMovesWhatWaits(t *testing.T) {
	onBrokers(t, func(b *bench) {
		a, stop := b.serve(app.Options{Quotas: limiter(b, "acme", quota.Limits{Live: 1})})
		due := time.Now().Add(time.Hour)
		b.schedule("first", due)
		b.rest()
		for _, call := range []string{"order-1", "order-2", "other", "kept", "moved-1", "moved-2"} {
			b.send(timer.ScheduleTimer{Key: keyOf(call), DueAt: due, CorrelationID: "req-" + call})
		}
		b.rest()
		rollBack := errors.New("no")
		cancel := func(of timer.Selection, end error) {
			if err := a.Timers().Tx(b.Context(), func(tx *sql.Tx) error {
				_, err := a.Timers().CancelWhereTx(b.Context(), tx, "acme", of)
				return errors.Join(err, end)
			}); !errors.Is(err, end) {
				b.Fatal(err)
			}
		}
		cancel(timer.Selection{Prefix: "kept"}, rollBack)
		cancel(timer.Selection{CorrelationID: "req-other"}, nil)
		if _, err := a.Timers().CancelWhere(b.Context(), "acme", timer.Selection{Prefix: "order-"}); err != nil {
			b.Fatal(err)
		}
		for _, of := range []timer.Selection{{Prefix: "moved-1"}, named("moved-2")} {
			if n, err := a.Timers().RescheduleWhere(b.Context(), "acme", of, timer.Move{To: due.Add(time.Hour)}); err != nil || n.Changed != 0 {
				b.Errorf("%+v, %v", n, err)
			}
		}
		b.wait(time.Second)
		b.schedule("order-3", due) // is newer
		b.rest()
		stop()
		b.serve(app.Options{})
		for _, want := range []string{"first kept order-3", "moved-1 moved-2"} {
			fired := strings.Fields(b.fired(time.Until(due) + 30*time.Minute))
			if slices.Sort(fired); strings.Join(fired, " ") != want {
				b.Errorf("fired %s, want %s", fired, want)
			}
			due = due.Add(time.Hour)
		}
	})
}

// TestAnotherInstanceCancelsWhatWaits has it note that while commands that waited are being
// handled one after the other.
func TestAnotherInstanceCancelsWhatWaits(t *testing.T) {
	onBrokers(t, func(b *bench) {
		b.serve(app.Options{Quotas: limiter(b, "acme", quota.Limits{Accept: quota.Rate{PerSecond: 10, Burst: 1}})})
		b.sendMany("acme", 100, time.Now().Add(time.Hour))
		b.wait(5*time.Second + 550*time.Millisecond)
		before := b.stats().Scheduled
		c := timer.CancelTimers{TenantID: "acme", Version: b.version(), Of: timer.Selection{Prefix: "command-"}}
		must(b, b.store.Inbox().PutInbox(b.Context(), timer.InboxMessage{
			TenantID: "acme", MessageID: c.CommandID, Body: envelope.CancelMany(c), ArrivedAt: time.Now(), Reason: timer.WaitApplied,
		}))
		b.wait(10 * time.Minute)
		if after := b.stats().Scheduled; before < 10 || after != before || b.waits("acme", timer.WaitQuota) != 0 {
			b.Errorf("%d timers, then %d; %d wait", before, after, b.waits("acme", timer.WaitQuota))
		}
	})
}

// TestSelectionsAreForgottenAsFastAsTheyCome has many of them be applied, none of which a start
// reads again.
func TestSelectionsAreForgottenAsFastAsTheyCome(t *testing.T) {
	onBrokers(t, func(b *bench) {
		b.serve(app.Options{})
		applied := make([]timer.InboxMessage, 5000)
		for i := range applied {
			applied[i] = handlers.Applied(timer.CancelTimers{TenantID: "acme", Version: b.version(), Of: timer.Selection{Prefix: "order-"}}.Command(), time.Now())
		}
		must(b, b.store.Inbox().PutInbox(b.Context(), applied...))
		b.wait(90 * time.Minute)
		if left, err := b.store.Inbox().AppliedSelections(b.Context(), "acme", 0); err != nil || len(left) != 0 {
			b.Errorf("%d of %d are left, %v", len(left), len(applied), err)
		}
	})
}

// TestManySelectionsAreApplied has a tenant cancel by correlation ids, within ten minutes, more often
// than it may have messages in the inbox, though none waits there.
func TestManySelectionsAreApplied(t *testing.T) {
	onBrokers(t, func(b *bench) {
		b.serve(app.Options{Inbox: handlers.InboxLimits{Messages: 1500}})
		for range 3 {
			for i := range 600 {
				c := timer.CancelTimers{TenantID: "acme", Version: b.version(), Of: timer.Selection{CorrelationID: fmt.Sprint("req-", i)}}
				b.publish("acme", c.CommandID, envelope.CancelMany(c))
			}
			b.wait(2 * time.Minute)
		}
		b.send(timer.ScheduleTimer{Key: keyOf("canceled"), DueAt: time.Now().Add(time.Minute), CorrelationID: "req-7"})
		b.wait(time.Second)
		b.cancelMany(timer.Selection{CorrelationID: "req-7"})
		if fired := b.fired(10 * time.Minute); fired != "" || b.waits("acme", timer.WaitFailed) != 0 {
			b.Errorf("fired %q, %d wait", fired, b.waits("acme", timer.WaitFailed))
		}
	})
}

// TestASelectionIsAppliedOnce has a timer of an older version come after it, which stands when
// the cancellation is delivered again.
func TestASelectionIsAppliedOnce(t *testing.T) {
	onBrokers(t, func(b *bench) {
		_, stop := b.serve(app.Options{})
		due := time.Now().Add(time.Hour)
		older := timer.ScheduleTimer{Key: keyOf("order-1"), Version: b.version(), DueAt: due}
		b.wait(time.Second)
		c := timer.CancelTimers{TenantID: "acme", Version: b.version(), Of: timer.Selection{Prefix: "order-"}}
		b.publish("acme", c.CommandID, envelope.CancelMany(c))
		b.rest()
		b.send(older)
		b.rest()
		stop()
		b.serve(app.Options{})
		b.publish("acme", "another-message", envelope.CancelMany(c))
		b.rest()
		if fired := b.fired(2 * time.Hour); fired != "order-1" {
			b.Errorf("fired %q, want the timer that came after the cancellation", fired)
		}
	})
}

// TestASelectionLooksAgainUntilThatSucceeds has an older timer be scheduled between the cancellation and
// its note, and the database fail when the cancellation looks again.
func TestASelectionLooksAgainUntilThatSucceeds(t *testing.T) {
	onBrokers(t, func(b *bench) {
		older := timer.ScheduleTimer{Key: keyOf("order-1"), Version: b.version(), DueAt: time.Now().Add(time.Hour)}
		var noted, failed atomic.Bool
		b.run(b.app(&fault.Store{Full: b.store, Decide: func(op string) fault.Kind {
			switch {
			case op == "put_inbox" && !noted.Swap(true):
				_, err := b.store.Schedule(b.Context(), time.Now(), older)
				must(b, err)
			case op == "cancel" && noted.Load() && !failed.Swap(true):
				return fault.Before
			}
			return fault.None
		}}, app.Options{}))
		b.wait(time.Second)
		b.cancelMany(timer.Selection{Prefix: "order-"})
		if fired := b.fired(2 * time.Hour); fired != "" || !failed.Load() {
			b.Errorf("fired %q, failed: %t", fired, failed.Load())
		}
	})
}

// TestASelectionThatWasInterruptedIsFinishedOnce has the service end before a cancellation, in
// its middle, or before it is noted. A command of an older version comes after it, and stands,
// though each start reads all again, as after a kill.
func TestASelectionThatWasInterruptedIsFinishedOnce(t *testing.T) {
	finishedOnce(t, "cancel", func(b *server, _ time.Time) {
		b.cancelMany(timer.Selection{Prefix: "order-"})
	}, func(b *server, _ time.Time) {
		if got, want := b.states(mine, "order-0", "order-599", "order-late", "other"), "order-0:Canceled order-599:Canceled order-late:Scheduled other:Scheduled"; got != want {
			b.Errorf("states %s, want %s", got, want)
		}
		b.on(mine, app.Options{})
		b.fires(20*time.Minute, "order-late other")
	})
}

// finishedOnce schedules timers and applies a command to those with the prefix order-, by writes
// of a kind, which is interrupted. It checks the database after a command of an older version has
// come, and three starts have read all again.
func finishedOnce(t *testing.T, write string, apply, check func(b *server, due time.Time)) {
	longtest.NotShort(t)
	for name, tt := range map[string]struct {
		op   string
		call int64 // from which on all fail
	}{"before it is delivered": {}, "in its middle": {write, 2}, "before it is noted": {"put_inbox", 1}} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(b *server) {
				var calls atomic.Int64
				var fails, runs atomic.Bool
				serve := func() (stop func()) {
					db := b.open(mine)
					end := b.until(&fault.Store{Full: db, Decide: func(op string) fault.Kind {
						if op == "advance" && runs.Load() {
							return fault.Before
						}
						if fails.Load() && (op == tt.op && calls.Add(1) >= tt.call || op == "put_inbox") { // otherwise it waits, and is applied later
							return fault.Before
						}
						return fault.None
					}}, db, app.Options{})
					runs.Store(true)
					return func() {
						end()
						runs.Store(false)
					}
				}
				due := time.Now().Add(10 * time.Minute)
				stop := serve()
				older := timer.ScheduleTimer{Key: keyOf("order-late"), Version: b.version(), DueAt: due}
				for i := range 600 {
					b.schedule(fmt.Sprint("order-", i), due)
				}
				b.schedule("other", due.Add(time.Second))
				b.rest()
				if tt.op == "" {
					stop()
				}
				fails.Store(true)
				apply(b, due)
				if tt.op != "" {
					stop()
				}
				if calls.Load() < tt.call {
					b.Errorf("%d calls of %s", calls.Load(), tt.op)
				}
				b.send(older)
				fails.Store(false)
				for range 3 {
					stop = serve()
					b.wait(30 * time.Second)
					stop()
				}
				check(b, due)
			})
		})
	}
}
