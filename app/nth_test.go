package app_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/timer"
)

// A visibleState is the part of a history that clients can see at its end. A repetition of
// the same event or dead letter is not another one.
type visibleState struct {
	Events map[string][]string // by key: id and due time, in the order of their first publication
	Dead   map[string]string   // by id: tenant, reason and body
	States map[string]string   // by key: state and version
	Parked int64               // events that the broker refused for good
}

// TestAnyCallMayFail makes each call of the store and the broker fail in turn,
// before and after it took effect, until a run in which none was left to fail.
// Clients see the same as without failures. The same with a process
// that dies before the call takes effect. (One that dies after it is one that
// dies before its next call.)
func TestAnyCallMayFail(t *testing.T) {
	longtest.NotShort(t)
	t.Parallel()
	if _, err := migrated(); err != nil { // not in a bubble, which its goroutines would outlive
		t.Fatal(err)
	}
	calm := new(failures)
	want := fixedHistory(t, calm)
	t.Logf("calls without failures: %d, %v", calm.all, calm.calls)
	if len(want.Events) != 5 || len(want.Dead) != 2 || want.Parked != 1 {
		t.Fatalf("the run without failures saw %d keys fire, %d dead letters and %d events parked, want 5, 2 and 1: %+v",
			len(want.Events), len(want.Dead), want.Parked, want)
	}
	for _, mode := range []struct {
		name  string
		kind  fault.Kind
		crash bool
	}{
		{"before it takes effect", fault.Before, false},
		{"after it took effect", fault.After, false},
		{"crash before it takes effect", fault.Before, true},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			first, step := 1, 1
			if !longtest.Wanted() {
				step = 25
			}
			if step > 1 {
				first = 1 + rand.IntN(step)
			}
			for n := first; ; n += step {
				f := &failures{nth: n, kind: mode.kind, crash: mode.crash}
				got := fixedHistory(t, f)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("call %d failed and clients observed something else (-want +got):\n%s", n, diff)
				}
				if f.all < n {
					t.Logf("%d calls, of which one in %d failed in turn", n-1, step)
					return
				}
			}
		})
	}
}

// fixedHistory lives through always the same: schedules, a reschedule,
// cancellations, a late older command, a resend, poison, events that the broker
// refuses, and a clean restart. Between two steps lie eight minutes, and
// nothing is due near a step: whatever has to be done again, or waits for the
// next poll, is done before the next one.
func fixedHistory(t *testing.T, f *failures) visibleState {
	var seen visibleState
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
		h := &history{world: newWorld(t, f, app.Options{PollingInterval: 6 * time.Minute}), step: time.Now()}
		h.broker.now = time.Now
		h.broker.refuses = func(event *message.Message) bool {
			return event.Metadata.Get(envelope.HeaderServiceCallID) == "refused"
		}
		h.start()
		h.ask("plain", 1, time.Minute)
		h.ask("moved", 1, betweenSteps+3*time.Minute)
		h.ask("canceled", 1, betweenSteps+3*time.Minute)
		h.ask("overdue", 1, -time.Hour)
		h.sendPoison("poison-1", 0)
		h.advance()
		h.ask("moved", 2, time.Minute)
		h.takeBack("canceled", 2)
		h.takeBack("plain", 3) // too late
		h.takeBack("revived", 2)
		h.broker.resend(h.sent[0].simCommand) // plain, which has fired
		h.ask("refused", 1, time.Minute)
		h.advance()
		h.stop()
		h.start()
		h.ask("restarted", 1, time.Minute)
		h.ask("canceled", 1, time.Minute) // older than its cancellation
		h.ask("revived", 3, time.Minute)  // newer than its cancellation
		h.sendPoison("poison-2", 1)
		h.advance()
		seen = h.seen()
		h.stop()
	})
	return seen
}

// betweenSteps is longer than it takes until a timer is due and polled for.
const betweenSteps = 8 * time.Minute

type history struct {
	*world
	step time.Time // when the step at work was meant to begin
}

// advance lets time go by until the next step, and starts the process again if it
// crashed.
func (h *history) advance() {
	h.t.Helper()
	for next := h.step.Add(betweenSteps); h.step.Before(next); {
		h.step = h.step.Add(time.Minute)
		time.Sleep(time.Until(h.step))
		synctest.Wait()
		h.revive()
	}
	if err := h.invariants(); err != nil {
		h.t.Error(err)
	}
}

// ask schedules a timer that is due some time after the step.
func (h *history) ask(call string, version int64, due time.Duration) {
	h.schedule(timer.ScheduleTimer{
		Key: keyOf(call), Version: timer.Version{TimestampMS: firstMS + version, CommandID: fmt.Sprintf("schedule-%s-%d", call, version)},
		DueAt: h.step.Add(due), CorrelationID: "trace-" + call,
	})
}

func (h *history) takeBack(call string, version int64) {
	h.cancel(timer.CancelTimer{Key: keyOf(call), Version: timer.Version{TimestampMS: firstMS + version, CommandID: fmt.Sprintf("cancel-%s-%d", call, version)}})
}

// seen is what clients can observe at the end.
func (h *history) seen() visibleState {
	h.t.Helper()
	v := visibleState{Events: make(map[string][]string), Dead: make(map[string]string), States: make(map[string]string)}
	if n := h.broker.unacked(); n > 0 {
		h.t.Errorf("%d commands were never acked", n)
	}
	events, dead := h.broker.publishedSince(0, 0)
	for _, e := range events {
		m, err := envelope.Decode(e.msg.Payload)
		if err != nil {
			h.t.Fatal(err)
		}
		event := m.Payload.(timer.DueTimeReached)
		key, is := event.Key.String(), event.ID+" due "+strconv.FormatInt(event.DueAt.UnixMilli(), 10)
		if !slices.Contains(v.Events[key], is) {
			v.Events[key] = append(v.Events[key], is)
		}
	}
	for _, m := range dead {
		v.Dead[m.UUID] = fmt.Sprint(m.Metadata.Get("topic"), m.Metadata.Get(envelope.HeaderDeadLetterReason), string(m.Payload))
	}
	entries, err := h.store.List(h.t.Context(), timer.Filter{TenantID: "acme"})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries.Entries {
		v.States[e.Key.String()] = fmt.Sprint(e.State, e.Version)
	}
	stats, err := h.store.Stats(h.t.Context(), "")
	if err != nil {
		h.t.Fatal(err)
	}
	if stats.Outbox != 0 {
		h.t.Errorf("%d events wait", stats.Outbox)
	}
	v.Parked = stats.Parked
	return v
}
