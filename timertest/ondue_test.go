package timertest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	_ "modernc.org/sqlite" // the driver of the host

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

// TestOnDueAtACrash crashes the service while a handler is at work: its context ends,
// and the event is handled again after the restart.
func TestOnDueAtACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls, ended int
		s := timertest.Start(t, timertest.OnDue("", func(ctx context.Context, _ timer.DueTimeReached) error {
			if calls++; calls > 1 {
				return nil
			}
			<-ctx.Done()
			ended++
			return nil // which has no effect any more
		}, app.OnDueOptions{}))
		s.Schedule(order("call", time.Hour))
		time.Sleep(time.Hour)
		synctest.Wait()
		s.Crash()
		synctest.Wait()
		if calls != 1 || ended != 1 || len(s.Fired(acme)) != 0 {
			t.Errorf("%d calls, %d of them ended with the crash, %d events", calls, ended, len(s.Fired(acme)))
		}
		time.Sleep(time.Hour)
		s.Restart()
		s.AwaitIdle()
		time.Sleep(time.Minute)
		if calls != 2 {
			t.Errorf("%d calls, want 2", calls)
		}
		fired(t, s, "call")
	})
}

// TestTheDatabaseOfTheHost has timers there, and a handler that fails once: the event takes
// effect once, though the service crashes before it.
func TestTheDatabaseOfTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "shop.db")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		if _, err := db.ExecContext(t.Context(), `CREATE TABLE expired (id TEXT PRIMARY KEY)`); err != nil {
			t.Fatal(err)
		}
		var calls int
		s := timertest.Start(t, timertest.DB(db), timertest.BeforeStart(func(a *app.App) {
			a.Timers().OnDueTx("", func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO expired (id) VALUES (?)`, string(e.ServiceCallID))
				if calls++; calls == 1 {
					return errors.Join(err, errors.New("not this time"))
				}
				return err
			}, app.OnDueOptions{})
		}))
		if err := s.App().Timers().Schedule(t.Context(), order("order-1", time.Hour)); err != nil {
			t.Fatal(err)
		}
		s.Crash()
		if n := len(s.Due()); n != 1 {
			t.Errorf("%d timers after the crash", n)
		}
		time.Sleep(time.Hour)
		s.Restart()
		s.AwaitIdle()
		var expired int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM expired`).Scan(&expired); err != nil {
			t.Fatal(err)
		}
		if n := len(s.Fired(acme)); n != 1 || expired != 1 || calls != 2 {
			t.Errorf("%d events, %d orders have expired, %d calls; want 1, 1 and 2", n, expired, calls)
		}
	})
}

// TestNothingIsCommittedAfterACrash has the service crash in a transaction of the host.
func TestNothingIsCommittedAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := timertest.Start(t)
		timers, began, end := s.App().Timers(), make(chan struct{}), make(chan error)
		go func() {
			end <- timers.Tx(t.Context(), func(tx *sql.Tx) error {
				close(began)
				time.Sleep(time.Second)
				return timers.ScheduleTx(t.Context(), tx, client.Timer{TenantID: acme, ServiceCallID: "call", After: time.Hour})
			})
		}()
		<-began
		go func() { // the crash waits for the end of the transaction
			if err := <-end; err == nil {
				t.Error("the transaction was committed")
			}
		}()
		s.Crash()
		s.Restart()
		if due := s.Due(); len(due) != 0 {
			t.Errorf("due are %v", due)
		}
	})
}

// A clinic is closed for a time after the first call.
type clinic struct {
	closed time.Duration
	calls  []time.Time
}

func (c *clinic) remind(context.Context, timer.DueTimeReached) error {
	c.calls = append(c.calls, time.Now())
	if len(c.calls) == 1 {
		return fmt.Errorf("closed: %w", timer.Later(c.closed))
	}
	return nil
}

// TestAnEventThatIsWantedLaterWaitsThroughACrash has the service idle meanwhile.
func TestAnEventThatIsWantedLaterWaitsThroughACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clinic{closed: 10 * time.Hour}
		svc := timertest.Start(t, timertest.OnDue("", c.remind, app.OnDueOptions{}))
		svc.Schedule(client.Timer{TenantID: "acme", ServiceCallID: "call-1", After: time.Hour})
		time.Sleep(time.Hour)
		svc.AwaitIdle()
		svc.Crash()
		svc.Restart()
		time.Sleep(9 * time.Hour)
		svc.AwaitIdle()
		if len(c.calls) != 1 {
			t.Fatalf("called at %v", c.calls)
		}
		time.Sleep(time.Until(c.calls[0].Add(10 * time.Hour)))
		svc.AwaitIdle()
		if len(c.calls) != 2 || c.calls[1].Sub(c.calls[0]) > 10*time.Hour+time.Second {
			t.Errorf("called at %v, want 10 h apart", c.calls)
		}
	})
}

// TestAConsumerHasItsEventLater over the broker that can keep it until then.
func TestAConsumerHasItsEventLater(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("SKIPPED: a NATS server works for each second of a bubble")
	}
	synctest.Test(t, func(t *testing.T) {
		svc := timertest.Start(t, timertest.NATS())
		c := clinic{closed: time.Hour}
		var failed []error
		router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		router.AddMiddleware(func(next message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				out, err := next(msg)
				failed = append(failed, err)
				return out, err
			}
		})
		b := svc.Broker()
		client.OnDue(router, b.Subscriber("clinic"), c.remind, client.OnDueOptions{Topic: b.Routing().EventsOf("acme")})
		go router.Run(t.Context())
		synctest.Wait()
		svc.Schedule(client.Timer{TenantID: "acme", ServiceCallID: "call-1", After: time.Minute})
		time.Sleep(time.Hour + 5*time.Minute)
		if len(c.calls) != 2 || c.calls[1].Sub(c.calls[0]) < time.Hour || c.calls[1].Sub(c.calls[0]) > time.Hour+time.Second {
			t.Errorf("called at %v, want an hour apart", c.calls)
		}
		if slices.ContainsFunc(failed, func(err error) bool { return err != nil }) {
			t.Errorf("the middleware saw %v", failed)
		}
	})
}
