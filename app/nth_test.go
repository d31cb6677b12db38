package app_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// An nth makes the nth call fail, counted over all operations, and no other.
// With crash, the process is dead from that call on, until it is revived.
type nth struct {
	n     int
	kind  fault.Kind
	crash bool

	mu    sync.Mutex
	calls int
	ops   map[string]int // calls by operation
	dead  bool
}

func newNth(n int, kind fault.Kind, crash bool) *nth {
	return &nth{n: n, kind: kind, crash: crash, ops: make(map[string]int)}
}

// decide waits before the failure: what the process did before, such as
// an ack, gets out.
func (f *nth) decide(op string) fault.Kind {
	if kind, is := f.choose(op); !is {
		return kind
	}
	<-time.After(failing)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = f.crash
	return f.kind
}

// choose reports whether this is the nth call.
func (f *nth) choose(op string) (kind fault.Kind, is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return fault.Before, false
	}
	f.calls++
	f.ops[op]++
	return fault.None, f.calls == f.n
}

func (f *nth) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

func (f *nth) revive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = false
}

func (f *nth) reached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls >= f.n
}

// A visible is what clients can see of a history in the end. A repetition of
// the same event or dead letter is not another one.
type visible struct {
	Events map[string][]string // by key: id and due time, in the order of their first publication
	Dead   map[string]string   // by id: tenant, reason and body
	States map[string]string   // by key: state and version
	Parked int64               // events that the broker refused for good
}

// TestAnyCallMayFail makes each call of the store and the broker fail in turn,
// before and after it took effect, until a run in which none was left to fail.
// What clients see is what they see without failures. The same with a process
// that dies before the call takes effect. (One that dies after it is one that
// dies before its next call.)
func TestAnyCallMayFail(t *testing.T) {
	t.Parallel()
	if _, err := migrated(); err != nil { // not in a bubble, which its goroutines would outlive
		t.Fatal(err)
	}
	calm := newNth(0, fault.None, false)
	want := fixedHistory(t, calm)
	t.Logf("calls without failures: %d, %v", calm.calls, calm.ops)
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
				step = 10
			}
			if testing.Short() { // with the race detector
				step = 30
			}
			if step > 1 {
				first = 1 + rand.IntN(step)
			}
			for n := first; ; n += step {
				f := newNth(n, mode.kind, mode.crash)
				got := fixedHistory(t, f)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("call %d failed and clients observed something else (-want +got):\n%s", n, diff)
				}
				if !f.reached() {
					t.Logf("%d calls, of which one in %d failed in turn", n-1, step)
					return
				}
			}
		})
	}
}

// fixedHistory lives through always the same: schedules, a reschedule,
// cancellations, a late older command, a resend, poison, events that the broker
// refuses, and a clean restart. Between two steps lies more than an hour, and
// nothing is due near a step: whatever has to be done again, or waits for the
// next poll, is done before the next one.
func fixedHistory(t *testing.T, f *nth) visible {
	var seen visible
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour)
		b := newSimBroker(1, f.decide)
		b.now = time.Now
		b.refuses = func(event *message.Message) bool {
			return event.Metadata.Get(envelope.HeaderServiceCallID) == "refused"
		}
		h := &history{t: t, faults: f, broker: b, path: filepath.Join(t.TempDir(), "timers.db"), step: time.Now()}
		h.start()
		h.schedule("plain", 1, 10*time.Minute)
		h.schedule("moved", 1, betweenSteps+30*time.Minute)
		h.schedule("canceled", 1, betweenSteps+30*time.Minute)
		h.schedule("overdue", 1, -time.Hour)
		h.poison("no json", "{")
		h.advance()
		h.schedule("moved", 2, 10*time.Minute)
		h.cancel("canceled", 2)
		h.cancel("plain", 3) // too late
		h.cancel("revived", 2)
		h.broker.resend(h.sent[0]) // plain, which has fired
		h.schedule("refused", 1, 10*time.Minute)
		h.advance()
		h.stop()
		h.start()
		h.schedule("restarted", 1, 10*time.Minute)
		h.schedule("canceled", 1, 10*time.Minute) // older than its cancellation
		h.schedule("revived", 3, 10*time.Minute)  // newer than its cancellation
		h.poison("no tenant", `{"id":"x","type":"ScheduleTimer","timestampMs":1,"payload":{}}`)
		h.advance()
		seen = h.seen()
		h.stop()
	})
	return seen
}

// betweenSteps is longer than it takes until a timer is due and polled for.
const betweenSteps = 80 * time.Minute

type history struct {
	t      *testing.T
	faults *nth
	broker *simBroker
	path   string
	sent   []*simCommand
	step   time.Time // when the step at work was meant to begin

	store *sqlite.Store
	end   context.CancelFunc
	ended chan error
}

// start begins with the database as it is.
func (h *history) start() {
	h.t.Helper()
	h.store = unsynced(h.t, h.path)
	h.run()
}

// run begins a process. The database is open already, and outlives it.
func (h *history) run() {
	h.t.Helper()
	a, err := app.New(&fault.Store{Full: h.store, Decide: h.faults.decide}, h.broker, quiet, app.Options{PollingInterval: time.Hour})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, end := context.WithCancel(h.t.Context())
	h.end, h.ended = end, make(chan error, 1)
	go func() { h.ended <- a.Run(ctx) }()
}

func (h *history) stop() {
	h.t.Helper()
	h.halt()
	closeUnsynced(h.t, h.store)
}

// halt ends the process.
func (h *history) halt() {
	h.t.Helper()
	h.end()
	if err := <-h.ended; err != nil {
		h.t.Errorf("the app died: %v", err)
	}
}

// advance lets time go by until the next step, and starts the process again if it
// crashed.
func (h *history) advance() {
	for next := h.step.Add(betweenSteps); h.step.Before(next); {
		h.step = h.step.Add(10 * time.Minute)
		time.Sleep(time.Until(h.step))
		synctest.Wait()
		if h.faults.isDead() {
			h.halt()
			h.faults.revive()
			h.run()
		}
	}
}

func (h *history) schedule(call string, version int64, due time.Duration) {
	c := timer.ScheduleTimer{
		Key:           timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)},
		Version:       timer.Version{TimestampMS: firstMS + version, CommandID: fmt.Sprintf("schedule-%s-%d", call, version)},
		DueAt:         h.step.Add(due),
		CorrelationID: "trace-" + call,
	}
	h.send(c.CommandID, envelope.Schedule(c))
}

func (h *history) cancel(call string, version int64) {
	c := timer.CancelTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)},
		Version: timer.Version{TimestampMS: firstMS + version, CommandID: fmt.Sprintf("cancel-%s-%d", call, version)},
	}
	h.send(c.CommandID, envelope.Cancel(c))
}

func (h *history) poison(id, body string) { h.send(id, []byte(body)) }

func (h *history) send(id string, body []byte) {
	h.sent = append(h.sent, h.broker.send(message.NewMessage(id, body)))
}

// seen is what clients can observe at the end.
func (h *history) seen() visible {
	h.t.Helper()
	v := visible{Events: make(map[string][]string), Dead: make(map[string]string), States: make(map[string]string)}
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
		if event.ReachedAt.Before(event.DueAt) {
			h.t.Errorf("%s fired early", event.Key)
		}
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
