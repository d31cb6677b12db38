package handlers_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// TestWhatTheInboxDoesNotTakeIsNacked has the store fail when a message is to wait.
func TestWhatTheInboxDoesNotTakeIsNacked(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		d.full = errors.New("disk full")
		d.apply = func(any) error { return errors.New("a bug") }
		d.run(t, routing)
		if d.deliver(string(envelope.Schedule(command))) {
			t.Error("acked though it is nowhere")
		}
	})
}

// TestAMessageWaitsAsItCame has a host's middleware change it, and fail.
func TestAMessageWaitsAsItCame(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		d.place = func(topic, position string) (string, int64, bool) { return "log of " + topic, 42, position == "42" }
		d.middleware = []message.HandlerMiddleware{func(message.HandlerFunc) message.HandlerFunc {
			return func(m *message.Message) ([]*message.Message, error) {
				clear(m.Payload)
				m.Payload = m.Payload[:1]
				m.Metadata.Set("header", "changed")
				return nil, errors.New("a key is missing")
			}
		}}
		d.run(t, routing)
		d.deliver(`{"tenantId":"acme"}`, broker.MetaTopic, "timer.commands", broker.MetaPosition, "42", broker.MetaDelivery, "3", "header", "value")
		rows, err := d.inbox.TakeInbox(t.Context(), noon.Add(time.Minute), noon.Add(time.Hour), 10, 10, nil)
		want := []timer.InboxMessage{{
			TenantID: "acme", Log: "log of timer.commands", Number: 42, Topic: "timer.commands", Position: "42", MessageID: "original-id",
			Headers: map[string]string{"header": "value"}, Body: []byte(`{"tenantId":"acme"}`), ArrivedAt: noon, Reason: timer.WaitFailed, Attempts: 1, LastError: "a key is missing",
		}}
		if diff := cmp.Diff(want, rows, cmpopts.IgnoreFields(timer.InboxMessage{}, "Seq", "RetryAt")); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// selectedBehindCommit delivers four orders, of which order-3 waits for the quota. Another instance
// has applied and noted a selection between the question for such selections and the commit of order-3.
func selectedBehindCommit(t *testing.T, d *harness, selection timer.SelectionCommand) {
	t.Helper()
	d.ticks = true
	d.apply = func(applied any) error {
		if s, ok := applied.(timer.ScheduleTimer); ok && s.ServiceCallID == "order-3" && s.Version == command.Version {
			return d.inbox.PutInbox(t.Context(), handlers.Applied(selection, noon.Add(time.Minute)))
		}
		return nil
	}
	d.run(t, routing)
	for i := range 4 {
		d.deliver(order("acme", i))
	}
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

// TestACommandThatWaitedIsCanceledBehindItsCommit by a selection that another instance has
// applied, and noted between the question for such selections and the commit.
func TestACommandThatWaitedIsCanceledBehindItsCommit(t *testing.T) {
	underQuota(t, rate2, func(t *testing.T, d *harness) {
		c := timer.CancelTimers{TenantID: "acme", Version: command.Version, Of: timer.Selection{Prefix: "order-"}}
		c.TimestampMS++
		selectedBehindCommit(t, d, c.Command())
		want := timer.CancelTimer{Key: timer.Key{TenantID: "acme", ServiceCallID: "order-3"}, Version: c.Version}
		if len(d.applied) != 5 || d.applied[4] != any(want) || d.waits(t, "acme").overQuota != 0 {
			t.Errorf("applied %+v, want at last %+v", d.applied, want)
		}
	})
}

// TestACommandThatWaitedIsScheduledAsItWasMoved meanwhile, and not at first for its own time: that
// may be past, and the timer could fire before it is moved.
func TestACommandThatWaitedIsScheduledAsItWasMoved(t *testing.T) {
	underQuota(t, rate2, func(t *testing.T, d *harness) {
		d.ticks = true
		m := timer.RescheduleTimers{TenantID: "acme", Version: command.Version, Of: timer.Selection{Prefix: "order-"}, DueAt: command.DueAt.Add(time.Hour)}
		m.TimestampMS++
		d.run(t, routing)
		for i := range 4 {
			d.deliver(order("acme", i))
		}
		if err := d.inbox.PutInbox(t.Context(), handlers.Applied(m.Command(), noon.Add(time.Minute))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(d.applied); n < 6 { // two at once, and two that waited, each with its move
			t.Fatalf("applied %+v, want 6 commands", d.applied)
		}
		for _, applied := range d.applied[2:] {
			if c, ok := applied.(timer.ScheduleTimer); !ok || !c.DueAt.Equal(m.DueAt) {
				t.Errorf("applied %+v, want it due at %v", applied, m.DueAt)
			}
		}
	})
}

// TestAMoveBehindTheCommitWakesThePoller if it makes a timer due sooner: another instance has
// applied and noted it between the question for such selections and the commit.
func TestAMoveBehindTheCommitWakesThePoller(t *testing.T) {
	underQuota(t, rate2, func(t *testing.T, d *harness) {
		m := timer.RescheduleTimers{TenantID: "acme", Version: command.Version, Of: timer.Selection{Prefix: "order-"}, DueAt: command.DueAt.Add(-time.Minute)}
		m.TimestampMS++
		selectedBehindCommit(t, d, m.Command())
		if last := d.wakes[len(d.wakes)-1]; !last.Equal(m.DueAt) {
			t.Errorf("the poller was told %v, want %v at last", d.wakes, m.DueAt)
		}
	})
}

// A lateInbox hides the note of a selection until its transaction commits.
type lateInbox struct {
	timer.Inbox
	committed atomic.Bool
}

func (l *lateInbox) AppliedSelections(ctx context.Context, tenant timer.TenantID, after int64) ([]timer.InboxMessage, error) {
	notes, err := l.Inbox.AppliedSelections(ctx, tenant, after)
	return slices.DeleteFunc(notes, func(m timer.InboxMessage) bool { return m.MessageID == "late" && !l.committed.Load() }), err
}

// TestANoteThatCommitsLateIsFound behind one with a higher number, by a command that is handled
// a moment after the notes were read.
func TestANoteThatCommitsLateIsFound(t *testing.T) {
	underQuota(t, quota.Limits{Accept: quota.Rate{PerSecond: 10, Burst: 2}}, func(t *testing.T, d *harness) {
		d.ticks = true
		late := &lateInbox{Inbox: d.openInbox(t)}
		d.inbox = late
		d.apply = func(applied any) error {
			if s, ok := applied.(timer.ScheduleTimer); ok && s.ServiceCallID == "order-2" {
				late.committed.Store(true)
			}
			return nil
		}
		d.run(t, routing)
		for i := range 4 {
			d.deliver(order("acme", i))
		}
		for _, id := range []string{"late", "note"} {
			c := timer.CancelTimers{TenantID: "acme", Version: timer.Version{TimestampMS: command.TimestampMS + 1, CommandID: id}, Of: timer.Selection{Prefix: "order-3"}}
			if id == "note" {
				c.Of.Prefix = "others-"
			}
			if err := d.inbox.PutInbox(t.Context(), handlers.Applied(c.Command(), noon)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want := timer.Key{TenantID: "acme", ServiceCallID: "order-3"}
		if c, ok := d.applied[len(d.applied)-1].(timer.CancelTimer); len(d.applied) != 4 || !ok || c.Key != want {
			t.Errorf("applied %+v, want %v canceled at last", d.applied, want)
		}
	})
}

// A slowInbox answers slowly, the first time, when the next message is due.
type slowInbox struct {
	timer.Inbox
	asked atomic.Bool
}

func (s *slowInbox) NextInbox(ctx context.Context) (time.Time, error) {
	next, err := s.Inbox.NextInbox(ctx)
	if !s.asked.Swap(true) {
		time.Sleep(time.Second)
	}
	return next, err
}

// TestAMessageThatComesDuringASearchIsTaken soon, though the search did not find it.
func TestAMessageThatComesDuringASearchIsTaken(t *testing.T) {
	underQuota(t, rate2, func(t *testing.T, d *harness) {
		d.ticks = true
		d.inbox = &slowInbox{Inbox: d.openInbox(t)}
		d.run(t, routing)
		synctest.Wait()
		for i := range 3 {
			d.deliver(order("acme", i))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(d.applied) != 3 {
			t.Errorf("applied %+v within 10 s, want all", d.applied)
		}
	})
}

// TestAStopGivesBackWhatIsInFlight, so that the next start does not wait for the end of a claim.
func TestAStopGivesBackWhatIsInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T, d *harness) {
		d.ticks = true
		tries := 0
		block := make(chan struct{})
		d.apply = func(any) error {
			if tries++; tries > 3 {
				<-block
			}
			return errors.New("a bug")
		}
		began := time.Now()
		_, stop, ended := d.start(t, routing)
		if !d.deliver(string(envelope.Schedule(command))) {
			t.Fatal("not acked")
		}
		time.Sleep(5 * time.Second)
		stop()
		<-ended // although a handler hangs
		now := noon.Add(time.Since(began))
		rows, err := d.inbox.TakeInbox(context.WithoutCancel(t.Context()), now, now.Add(time.Hour), 10, 10, nil)
		if err != nil || len(rows) != 1 || rows[0].Attempts != 1 {
			t.Errorf("%+v, %v: want the row be due", rows, err)
		}
		close(block)
		synctest.Wait()
	})
}

// TestAClockThatIsSetBackHoldsNoMessage has messages that came while the clock was hours ahead: one
// whose handling failed, and ones over a quota. The clock is set right while the handlers run, or
// before they start again.
func TestAClockThatIsSetBackHoldsNoMessage(t *testing.T) {
	for name, restart := range map[string]bool{"while they run": false, "before they start": true} {
		t.Run(name, func(t *testing.T) {
			underQuota(t, rate2, func(t *testing.T, d *harness) {
				d.ticks = true
				d.ahead.Store(int64(6 * time.Hour))
				fails := true
				d.apply = func(applied any) error {
					if s, ok := applied.(timer.ScheduleTimer); ok && fails && s.TenantID == "globex" {
						return errors.New("a bug")
					}
					return nil
				}
				_, stop, ended := d.start(t, routing)
				d.deliver(order("globex", 0))
				for i := range 4 {
					d.deliver(order("acme", i))
				}
				synctest.Wait()
				if restart {
					stop()
					<-ended
				}
				fails = false
				d.ahead.Store(0)
				if restart {
					_, stop, ended = d.start(t, routing)
				}
				time.Sleep(6 * time.Minute)
				synctest.Wait()
				if acme, globex := d.waits(t, "acme"), d.waits(t, "globex"); acme != (waitCounts{}) || globex != (waitCounts{}) {
					t.Errorf("%+v of acme and %+v of globex wait six minutes after the clock was set right", acme, globex)
				}
				stop()
				<-ended
			})
		})
	}
}

// TestHeadersOfAnyBytesHoldUpNoOther has messages of a tenant over its quota, with names of headers that differ
// only in bytes which are not UTF-8, and one of another tenant.
func TestHeadersOfAnyBytesHoldUpNoOther(t *testing.T) {
	underQuota(t, rate2, func(t *testing.T, d *harness) {
		d.batched = true
		d.run(t, routing)
		for tenant, headers := range map[timer.TenantID][]string{"acme": {"x\xff", "1", "x\xfe", "2"}, "globex": nil} {
			for i := range 3 {
				if !d.deliver(order(tenant, i), headers...) {
					t.Errorf("message %d of %s was not acked", i, tenant)
				}
			}
			if got := d.waits(t, tenant); got.overQuota != 1 {
				t.Errorf("%+v of %s wait, want 1 over its quota", got, tenant)
			}
		}
	})
}
