package app_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	dead  bool
}

func (f *nth) decide(string) fault.Kind {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return fault.Before
	}
	f.calls++
	if f.calls != f.n {
		return fault.None
	}
	f.dead = f.crash
	return f.kind
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
}

// TestAnyCallMayFail makes each call of the store and the broker fail in turn,
// before and after it took effect, with and without a crash of the process,
// until a run in which none was left to fail. What clients see is what they
// see without failures.
func TestAnyCallMayFail(t *testing.T) {
	t.Parallel()
	if _, err := migrated(); err != nil { // not in a bubble, which its goroutines would outlive
		t.Fatal(err)
	}
	want := fixedHistory(t, &nth{})
	if len(want.Events) != 5 || len(want.Dead) != 2 {
		t.Fatalf("the run without failures saw %d keys fire and %d dead letters, want 5 and 2: %+v", len(want.Events), len(want.Dead), want)
	}
	for _, mode := range []struct {
		name  string
		kind  fault.Kind
		crash bool
	}{
		{"before it takes effect", fault.Before, false},
		{"after it took effect", fault.After, false},
		{"crash before it takes effect", fault.Before, true},
		{"crash after it took effect", fault.After, true},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			if mode.crash && testing.Short() {
				t.Skip("crashes at each call are left out with -short")
			}
			for n := 1; ; n++ {
				f := &nth{n: n, kind: mode.kind, crash: mode.crash}
				got := fixedHistory(t, f)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("call %d failed and clients saw something else (-want +got):\n%s", n, diff)
				}
				if !f.reached() {
					t.Logf("%d calls failed in turn", n-1)
					return
				}
			}
		})
	}
}

// fixedHistory lives through always the same: schedules, a reschedule,
// cancellations, a late older command, a resend, poison, and a clean restart.
// Between two steps lie hours, and nothing is due near a step: whatever has to
// be done again, or waits for the next poll, is done before the next one.
func fixedHistory(t *testing.T, f *nth) visible {
	var seen visible
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour)
		h := &history{t: t, faults: f, broker: newSimBroker(1, f.decide), path: filepath.Join(t.TempDir(), "timers.db"), step: time.Now()}
		h.start()
		h.schedule("plain", 1, 30*time.Minute)
		h.schedule("moved", 1, 150*time.Minute)
		h.schedule("canceled", 1, 150*time.Minute)
		h.schedule("overdue", 1, -time.Hour)
		h.poison("no json", "{")
		h.pass()
		h.schedule("moved", 2, 30*time.Minute)
		h.cancel("canceled", 2)
		h.cancel("plain", 3) // too late
		h.cancel("revived", 2)
		h.broker.resend(h.sent[0]) // plain, which has fired
		h.pass()
		h.stop()
		h.start()
		h.schedule("restarted", 1, 30*time.Minute)
		h.schedule("canceled", 1, 30*time.Minute) // older than its cancellation
		h.schedule("revived", 3, 30*time.Minute)  // newer than its cancellation
		h.poison("no tenant", `{"id":"x","type":"ScheduleTimer","timestampMs":1,"payload":{}}`)
		h.pass()
		h.pass()
		seen = h.seen()
		h.stop()
	})
	return seen
}

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

func (h *history) start() {
	h.t.Helper()
	h.store = unsynced(h.t, h.path)
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
	h.end()
	if err := <-h.ended; err != nil {
		h.t.Errorf("the app died: %v", err)
	}
	closeUnsynced(h.t, h.store)
}

// pass lets time go by until the next step, and starts the process again if it
// crashed.
func (h *history) pass() {
	for next := h.step.Add(2 * time.Hour); h.step.Before(next); {
		h.step = h.step.Add(10 * time.Minute)
		time.Sleep(time.Until(h.step))
		synctest.Wait()
		if h.faults.isDead() {
			h.stop()
			h.faults.revive()
			h.start()
		}
	}
}

func (h *history) schedule(call string, version int64, due time.Duration) {
	c := timer.ScheduleTimer{
		Key:           timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)},
		Version:       timer.Version{TimestampMS: version, CommandID: fmt.Sprintf("schedule-%s-%d", call, version)},
		DueAt:         h.step.Add(due),
		CorrelationID: "trace-" + call,
	}
	h.send(c.CommandID, envelope.Schedule(c))
}

func (h *history) cancel(call string, version int64) {
	c := timer.CancelTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(call)},
		Version: timer.Version{TimestampMS: version, CommandID: fmt.Sprintf("cancel-%s-%d", call, version)},
	}
	h.send(c.CommandID, envelope.Cancel(c))
}

func (h *history) poison(id, body string) { h.send(id, []byte(body)) }

func (h *history) send(id string, body []byte) {
	h.sent = append(h.sent, h.broker.send(message.NewMessage(id, body)))
}

// seen is what clients can see now, when everything is over.
func (h *history) seen() visible {
	h.t.Helper()
	v := visible{Events: make(map[string][]string), Dead: make(map[string]string), States: make(map[string]string)}
	if n := h.broker.unacked(); n > 0 {
		h.t.Errorf("%d commands were never acked", n)
	}
	for _, e := range h.broker.published() {
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
	for _, m := range h.broker.dead {
		v.Dead[m.UUID] = fmt.Sprint(m.Metadata.Get("topic"), m.Metadata.Get(envelope.HeaderDeadLetterReason), string(m.Payload))
	}
	entries, err := h.store.List(h.t.Context(), "acme", timer.Filter{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		v.States[e.Key.String()] = fmt.Sprint(e.State, e.Version)
	}
	stats, err := h.store.Stats(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	if stats.Outbox != 0 || stats.Parked != 0 {
		h.t.Errorf("%d events wait and %d are parked", stats.Outbox, stats.Parked)
	}
	return v
}

// migrated is an empty database, made once.
var migrated = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "empty.db")
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{Durability: sqlite.Relaxed})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// unsynced opens a database as a host does, without syncs: what a test throws
// away needs to survive no loss of power. A new file is a copy of an empty one.
func unsynced(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		empty, err := migrated()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, empty, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", sqlite.DSN(path)+"&_pragma=synchronous(off)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(4)
	return sqlite.New(db, sqlite.Options{})
}

func closeUnsynced(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if err := errors.Join(s.Close(), s.DB().Close()); err != nil {
		t.Error(err)
	}
}
