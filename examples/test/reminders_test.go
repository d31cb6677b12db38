package reminders_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	reminders "github.com/event-service-agent/timer-service/examples/test"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

// start starts the timer service in a bubble, where time passes as soon as everybody
// waits for it, and the code under test with it.
func start(t *testing.T) (svc *timertest.Service, r *reminders.Reminders, mail *mailServer) {
	mail = new(mailServer)
	svc = timertest.Start(t,
		timertest.OnDue("", func(ctx context.Context, e timer.DueTimeReached) error { return r.OnDue(ctx, e) }, app.OnDueOptions{}),
		timertest.Options(app.Options{PollingInterval: time.Hour})) // takes less real time than the default
	return svc, reminders.New(svc.Client(), mail.send), mail
}

// A mailServer keeps sent mails.
type mailServer struct {
	mu   sync.Mutex
	down bool
	sent []string
}

func (m *mailServer) send(_ context.Context, order string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return errors.New("the mail server is down")
	}
	m.sent = append(m.sent, order)
	return nil
}

func (m *mailServer) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// want checks the orders of which reminders were sent, in whatever order.
func (m *mailServer) want(t *testing.T, orders ...string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.sent)
	if !slices.Equal(m.sent, orders) {
		t.Errorf("at %s, reminders of %q were sent, want %q", time.Now().Format(time.TimeOnly), m.sent, orders)
	}
}

func TestAReminderIsSentAfterThreeHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, r, mail := start(t)
		if err := r.Ordered(t.Context(), "order-1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(reminders.After - time.Millisecond)
		mail.want(t)
		time.Sleep(time.Millisecond)
		svc.AwaitIdle()
		mail.want(t, "order-1")
	})
}

func TestWhoHasPaidGetsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, r, mail := start(t)
		if err := r.Ordered(t.Context(), "order-1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if err := r.Paid(t.Context(), "order-1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		svc.AwaitIdle()
		mail.want(t)
	})
}

func TestACrashOfTheTimerServiceLosesNoReminder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, r, mail := start(t)
		if err := r.Ordered(t.Context(), "order-1"); err != nil {
			t.Fatal(err)
		}
		svc.AwaitIdle() // the timer is stored
		svc.Crash()
		if err := r.Ordered(t.Context(), "order-2"); err != nil { // waits at the broker
			t.Fatal(err)
		}
		time.Sleep(4 * time.Hour)
		mail.want(t)
		svc.Restart()
		svc.AwaitIdle()
		mail.want(t, "order-1", "order-2")
	})
}

func TestAMailThatFailsIsSentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, r, mail := start(t)
		mail.setDown(true)
		if err := r.Ordered(t.Context(), "order-1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(reminders.After + time.Second)
		mail.want(t)
		mail.setDown(false)
		svc.AwaitIdle() // lets the time until the next attempt pass
		mail.want(t, "order-1")
	})
}
