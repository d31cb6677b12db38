package app_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

func TestHoursOfTimersWithoutLateness(t *testing.T) {
	onBrokers(t, func(b *bench) {
		b.serve(app.Options{PollingInterval: time.Hour})
		began := time.Now()
		dues := []time.Duration{0, time.Millisecond, 1500 * time.Millisecond, time.Second, time.Minute, time.Hour, 10 * time.Hour, 20 * time.Hour}
		for _, after := range dues {
			b.schedule(fmt.Sprint("call-", after.Milliseconds()), began.Add(after))
		}
		for range dues {
			if e := b.next(); e.Lateness() != 0 || !time.Now().Equal(e.DueAt) {
				b.Errorf("%s, due at %v, fired %v late and arrived at %v", e.Key, e.DueAt, e.Lateness(), time.Now())
			}
		}
		b.quietFor(time.Hour)
	})
}

// TestCleanStopDeliversNothingTwice stops in the middle of a hundred timers, again and again.
func TestCleanStopDeliversNothingTwice(t *testing.T) {
	onBrokers(t, func(b *bench) {
		began, times := time.Now(), make(map[string]int)
		for round := range 5 {
			_, stop := b.serve(app.Options{PollingInterval: time.Hour})
			due := began.Add(time.Duration(round) * time.Minute)
			for i := range 100 {
				b.schedule(fmt.Sprintf("call-%d-%d", round, i), due)
			}
			stopped := make(chan struct{})
			go func() {
				time.Sleep(time.Until(due))
				stop()
				close(stopped)
			}()
			for done := false; !done; {
				select {
				case m := <-b.events:
					times[string(b.event(m).ServiceCallID)]++
				case <-stopped:
					done = true
				}
			}
		}
		b.serve(app.Options{PollingInterval: time.Hour})
		for _, call := range strings.Fields(b.fired(2 * time.Hour)) {
			times[call]++
		}
		for call, n := range times {
			if n != 1 {
				b.Errorf("%s was delivered %d times", call, n)
			}
		}
		if len(times) != 500 && b.broker.Routing() == nats.DefaultRouting() { // the other one keeps nothing for a service that is not there
			b.Errorf("%d of 500 events arrived", len(times))
		}
	})
}

// while returns a decision that has every call fail, or the calls of some operations, while so is true.
func while(so *atomic.Bool, ops ...string) fault.Decide {
	return func(op string) fault.Kind {
		if so.Load() && (len(ops) == 0 || slices.Contains(ops, op)) {
			return fault.Before
		}
		return fault.None
	}
}

// TestAMessageCancelsManyTimers that are there, and says how many that was.
func TestAMessageCancelsManyTimers(t *testing.T) {
	onBrokers(t, func(b *bench) {
		counters := new(app.Counters)
		var seen []string
		var mu sync.Mutex
		watch := func(d handlers.Decision) {
			mu.Lock()
			defer mu.Unlock()
			if d.Type == envelope.TypeCancelTimers {
				seen = append(seen, string(d.ServiceCallID)+" "+d.Outcome)
			}
		}
		b.serve(app.Options{Counters: counters, Hooks: []app.Hooks{{Watch: func() func(handlers.Decision) { return watch }}}})
		for _, call := range []string{"a-1", "a-2", "b-1", "c-1"} {
			b.schedule(call, time.Now().Add(time.Hour))
		}
		synctest.Wait()
		time.Sleep(time.Second)
		for _, of := range []timer.Selection{{Prefix: "a-"}, {Calls: []timer.ServiceCallID{"b-1", "d-1"}}, {Prefix: "z"}} {
			c := timer.CancelTimers{TenantID: "acme", Version: b.version(), Of: of}
			b.publish("acme", c.CommandID, envelope.CancelMany(c))
		}
		if got := b.fired(2 * time.Hour); got != "c-1" {
			b.Errorf("%s fired", got)
		}
		got := counters.Commands()
		for outcome, want := range map[string]int64{"canceled": 4, "none": 1} {
			if n := got[handlers.Result{Type: envelope.TypeCancelTimers, Outcome: outcome}]; n != want {
				b.Errorf("%d %s, want %d: %v", n, outcome, want, got)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(seen)
		if diff := cmp.Diff([]string{"a-1 canceled", "a-2 canceled", "b-1 canceled", "d-1 canceled"}, seen); diff != "" {
			b.Errorf("decisions (-want +got):\n%s", diff)
		}
	})
}

// TestDataReachTheEventAndNoLog: data travel from a command to its event, byte for byte, and no
// line of the log shows them, whatever becomes of the command.
func TestDataReachTheEventAndNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logbuf.Buffer
		service := timertest.Start(t, timertest.Log(slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))))
		b, events := &bench{T: t, broker: service.Broker()}, service.Events("acme")
		const data = `{ "secret":  [1.0, "marker-\u00e9"] }`
		command := timer.ScheduleTimer{Key: keyOf("with"), Version: b.version(), DueAt: time.Now().Add(time.Hour), Data: data, CorrelationID: "req-1"}
		b.send(command)
		b.publish("acme", "c-2", []byte(strings.Replace(string(envelope.Schedule(command)), `"secret"`, `"marker-3":1,"marker-3"`, 1)))
		if e := <-events; e.Data != data {
			t.Errorf("the event has %q", e.Data)
		}
		time.Sleep(time.Second)
		for _, msg := range []string{"command handled", "message refused", "timer fired", "event delivered"} {
			if _, attrs, _ := strings.Cut(lines.String(), `msg="`+msg+`" `); !strings.Contains(attrs, "tenant_id=acme service_call_id=with correlation_id=req-1") {
				t.Errorf("no line %q names the timer:\n%s", msg, &lines)
			}
		}
		if strings.Contains(lines.String(), "marker") {
			t.Errorf("data are in the log:\n%s", &lines)
		}
	})
}

// TestReceiptsSayWhatBecameOfEachCommand sends each command twice, as a broker may that has
// lost the ack.
func TestReceiptsSayWhatBecameOfEachCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counters := new(app.Counters)
		b := &bench{T: t, broker: timertest.Start(t, timertest.Options(app.Options{Counters: counters}), timertest.Receipts()).Broker(), rests: 10 * time.Second}
		receipts, err := b.broker.Tail().Subscribe(t.Context(), b.broker.Routing().ReceiptsOf("acme"))
		must(t, err)
		came := make(chan *message.Message, 100)
		go func() {
			for m := range receipts {
				m.Ack()
				came <- m
			}
		}()
		began := time.Now()
		version := func(n int64, id string) timer.Version {
			return timer.Version{TimestampMS: began.UnixMilli() + n, CommandID: id}
		}
		schedule := func(n int64, id string, due time.Duration) []byte {
			return envelope.Schedule(timer.ScheduleTimer{Key: keyOf("order-1"), Version: version(n, id), DueAt: began.Add(due), CorrelationID: "req-" + id})
		}
		ids := make(map[string]bool)
		for _, step := range []struct {
			wait time.Duration
			body []byte
			want string // nothing new, if it is empty
		}{
			{0, schedule(2, "c-2", time.Hour), "TimerScheduled c-2 req-c-2 "},
			{0, schedule(1, "c-1", time.Hour), "TimerIgnored c-1 req-c-1 stale"},
			{0, envelope.Cancel(timer.CancelTimer{Key: keyOf("order-1"), Version: version(3, "c-3")}), "TimerCanceled c-3  "},
			{0, schedule(4, "c-4", 3*time.Minute), "TimerScheduled c-4 req-c-4 "},
			{0, []byte(`{"id":"c-5","type":"ScheduleTimer","tenantId":"acme","aggregateId":"order-1","correlationId":"req-c-5"}`), "TimerRejected c-5 req-c-5 missing_field"},
			{0, []byte(`{"id":"c-6","type":"ScheduleTimer","tenantId":"?"}`), ""},
			{5 * time.Minute, schedule(7, "c-7", time.Hour), "TimerIgnored c-7 req-c-7 reached"},
			{0, schedule(4, "c-4", 3*time.Minute), ""},
		} {
			time.Sleep(step.wait)
			got := ""
			for range 2 {
				b.publish("acme", "x", step.body)
				b.rest()
			}
			for range len(came) {
				m := <-came
				decoded, err := envelope.Decode(m.Payload)
				must(t, err)
				r := decoded.Payload.(timer.Receipt)
				if !ids[m.UUID] {
					got += fmt.Sprint(r.Type, " ", r.CommandID, " ", r.CorrelationID, " ", r.Reason)
				}
				ids[m.UUID] = true
				if r.Key != keyOf("order-1") || decoded.ID != m.UUID || m.Metadata.Get(envelope.HeaderType) != string(r.Type) {
					t.Errorf("%s %v", m.Payload, m.Metadata)
				}
			}
			if got != step.want {
				t.Errorf("%s: receipts %q, want %q", step.body, got, step.want)
			}
		}
		if counters.Forwarded() != 1 || counters.Lateness().Events != 1 {
			t.Errorf("%d events forwarded, %d may be late; want the one event", counters.Forwarded(), counters.Lateness().Events)
		}
	})
}

// TestTimersWhoseCommitIsReportedAsFailedAreOnTime: when the command comes again it changes nothing.
func TestTimersWhoseCommitIsReportedAsFailedAreOnTime(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.broker = inMemory(b.T)
		b.consume()
		lost := 0
		b.run(b.app(&fault.Store{Full: b.store, Decide: func(op string) fault.Kind {
			if op == "schedule" && lost > 0 {
				lost--
				return fault.After
			}
			return fault.None
		}}, app.Options{PollingInterval: time.Minute}))
		b.schedule("call-2", time.Now().Add(time.Hour))
		b.rest()
		lost = 1
		b.schedule("call-1", time.Now().Add(2*time.Second))
		check := func() {
			if e := b.next(); time.Since(e.DueAt) > 100*time.Millisecond {
				b.Errorf("%s came %v late", e.Key, time.Since(e.DueAt))
			}
		}
		check()
		lost = 1
		b.rescheduleMany(timer.Selection{Prefix: "call-2"}, time.Now().Add(2*time.Second))
		check()
	})
}
