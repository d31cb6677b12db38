package app_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

func TestMain(m *testing.M) {
	ats.Register() // here, so that the server's clock of access times does not belong to the first bubble
	os.Exit(longtest.Simulating(m))
}

var quiet = slog.New(slog.DiscardHandler)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A bench is what an app needs, in a bubble: a folder for databases, of which one is open, a
// broker or none, and a clock that does not wait.
type bench struct {
	*testing.T
	dir    string
	store  *sqlite.Store
	broker broker.Broker             // of producers and consumers; nil: there is none
	apart  func() broker.Broker      // a connection to the broker for each app, which runs it; nil: they use that of the bench
	rests  time.Duration             // until all commands are handled, and an app that starts has caught up
	events <-chan *message.Message   // of all tenants
	due    chan timer.DueTimeReached // the events that the handler of [handle] was called with
	log    logbuf.Buffer             // of all apps
	sent   int
}

// inBubble runs a test in a bubble, on a database and no broker.
func inBubble(t *testing.T, test func(b *bench)) {
	t.Helper()
	t.Parallel()
	_, err := migrated() // not in a bubble, which its goroutines would outlive
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due
		b := &bench{T: t, dir: t.TempDir(), due: make(chan timer.DueTimeReached, 100)}
		b.store = unsynced(t, b.path("timers.db"))
		t.Cleanup(func() { must(t, errors.Join(b.store.Close(), b.store.DB().Close())) })
		test(b)
	})
}

// onBrokers runs a test once with each broker that runs in a bubble.
func onBrokers(t *testing.T, test func(b *bench)) {
	t.Helper()
	t.Parallel()
	for name, options := range map[string][]timertest.Option{"gochannel": nil, "nats": {timertest.NATS()}} {
		t.Run(name, func(t *testing.T) {
			if name == "nats" {
				longtest.Skip(t, "a NATS server works for each second of a bubble")
			}
			inBubble(t, func(b *bench) {
				b.broker, b.rests = timertest.Start(b, append(options, timertest.Stopped())...).Broker(), 100*time.Millisecond
				b.consume()
				synctest.Wait()
				test(b)
			})
		})
	}
}

// consume subscribes to the events of all tenants.
func (b *bench) consume() {
	b.Helper()
	var err error
	b.events, err = b.broker.Subscriber("consumer").Subscribe(b.Context(), b.broker.Routing().EventsOf("*"))
	must(b, err)
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// running runs something until stop is called, or the test ends.
func running(t *testing.T, name string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// start runs an app until stop is called, or the test ends, and returns when it takes commands.
func start(t *testing.T, name string, a *app.App) (stop func()) {
	t.Helper()
	ended := make(chan struct{})
	stop = running(t, name, func(ctx context.Context) error {
		defer close(ended)
		return a.Run(ctx)
	})
	select {
	case <-a.Running():
	case <-ended:
		stop() // says why
		t.FailNow()
	}
	return stop
}

// app returns an app on a store.
func (b *bench) app(s app.Store, opt app.Options) *app.App {
	b.Helper()
	to := b.broker
	if b.apart != nil {
		to, opt.RunBroker, opt.BrokerName, opt.DrainTimeout = b.apart(), true, "nats://here", time.Second
	}
	a, err := app.New(s, to, slog.New(slog.NewTextHandler(&b.log, nil)), opt)
	must(b, err)
	return a
}

// run runs an app until stop is called, or the bubble ends.
func (b *bench) run(a *app.App) (stop func()) {
	stop = start(b.T, "app", a)
	b.rest()
	return stop
}

// serve runs an app with handlers on the database of the bench, until stop is called or the
// bubble ends.
func (b *bench) serve(opt app.Options, register ...func(*app.Timers)) (a *app.App, stop func()) {
	b.Helper()
	a = b.app(b.store, opt)
	for _, r := range register {
		r(a.Timers())
	}
	return a, b.run(a)
}

// program runs an app whose events go to due.
func (b *bench) program(opt app.Options) *app.Timers {
	b.Helper()
	a, _ := b.serve(opt, b.handle("", app.OnDueOptions{}))
	return a.Timers()
}

// handle returns what registers a handler that sends events to due.
func (b *bench) handle(prefix string, opt app.OnDueOptions) func(*app.Timers) {
	return func(timers *app.Timers) {
		timers.OnDue(prefix, func(_ context.Context, e timer.DueTimeReached) error { b.due <- e; return nil }, opt)
	}
}

// rest waits until commands that were sent are handled.
func (b *bench) rest() { b.wait(b.rests) }

// wait lets time go by.
func (b *bench) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func keyOf(id string) timer.Key {
	return timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(id)}
}

func in(id string, after time.Duration) client.Timer {
	return client.Timer{TenantID: "acme", ServiceCallID: timer.ServiceCallID(id), DueAt: time.Now().Add(after)}
}

// version returns that of a command which is sent now.
func (b *bench) version() timer.Version {
	b.sent++
	return timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: fmt.Sprint("command-", b.sent)}
}

// schedule publishes a command, and returns when the broker has it.
func (b *bench) schedule(call string, due time.Time) {
	b.send(timer.ScheduleTimer{Key: keyOf(call), DueAt: due})
}

func (b *bench) send(c timer.ScheduleTimer) {
	b.Helper()
	if c.Version == (timer.Version{}) {
		c.Version = b.version()
	}
	b.publish(c.TenantID, c.CommandID, envelope.Schedule(c))
}

func (b *bench) cancel(call string) {
	b.Helper()
	c := timer.CancelTimer{Key: keyOf(call), Version: b.version()}
	c.TimestampMS++ // newer than a command of this millisecond
	b.publish("acme", c.CommandID, envelope.Cancel(c))
}

func (b *bench) publish(tenant timer.TenantID, id string, body []byte) {
	b.Helper()
	m := broker.Message{Topic: b.broker.Routing().CommandsOf(tenant), Message: message.NewMessage(id, body)}
	must(b, broker.Join(b.broker.Publisher().Publish(b.Context(), m)))
}

// next waits for an event and acks it.
func (b *bench) next() timer.DueTimeReached {
	b.Helper()
	return b.event(<-b.events)
}

func (b *bench) event(m *message.Message) timer.DueTimeReached {
	b.Helper()
	m.Ack()
	decoded, err := envelope.Decode(m.Payload)
	must(b, err)
	e, ok := timer.EventOf(decoded.Payload)
	if !ok || time.Now().Before(e.DueAt) {
		b.Errorf("published a %s, due at %v", decoded.Type, e.DueAt)
	}
	return e
}

// fired returns the calls whose events come within a time, and which of them expired.
func (b *bench) fired(within time.Duration) (calls string) {
	b.Helper()
	for until := time.After(within); ; {
		select {
		case m := <-b.events:
			e := b.event(m)
			calls += " " + string(e.ServiceCallID)
			if e.State() == timer.Expired {
				calls += ":Expired"
			}
		case <-until:
			return strings.TrimSpace(calls)
		}
	}
}

// quietFor checks that no event comes for a while.
func (b *bench) quietFor(d time.Duration) {
	b.Helper()
	if calls := b.fired(d); calls != "" {
		b.Errorf("unexpected events: %s", calls)
	}
}

// handled checks that the handler has a timer at a time, and no other before.
func (b *bench) handled(id string, at time.Time) {
	b.Helper()
	if e := <-b.due; e.Key != keyOf(id) || !time.Now().Equal(at) {
		b.Errorf("%s came at %v, want %s at %v", e.Key, time.Now(), keyOf(id), at)
	}
}

// stats returns the counts of the database of the bench.
func (b *bench) stats() timer.Stats {
	b.Helper()
	return statsOf(b, b.store, "")
}

func statsOf(t testing.TB, s timer.Reader, tenant timer.TenantID) timer.Stats {
	t.Helper()
	stats, err := s.Stats(t.Context(), tenant)
	must(t, err)
	return stats
}

// check returns the check of a part of an app.
func (b *bench) check(a *app.App, part string) app.Check {
	b.Helper()
	for _, c := range a.Checks(b.Context()) {
		if c.Part == part {
			return c
		}
	}
	b.Fatalf("no check of the %s", part)
	return app.Check{}
}

// put stores timers of a tenant that are due at a time.
func put(t testing.TB, s timer.Commands, tenant timer.TenantID, due time.Time, calls ...timer.ServiceCallID) {
	t.Helper()
	commands := make([]timer.ScheduleTimer, len(calls))
	for i, call := range calls {
		commands[i] = timer.ScheduleTimer{
			Key: timer.Key{TenantID: tenant, ServiceCallID: call}, Version: timer.Version{TimestampMS: 1, CommandID: "c-" + string(call)}, DueAt: due,
		}
	}
	_, err := s.Schedule(t.Context(), time.Now(), commands...)
	must(t, err)
}

// calls returns the names of some service calls.
func calls(n int) []timer.ServiceCallID {
	all := make([]timer.ServiceCallID, n)
	for i := range all {
		all[i] = timer.ServiceCallID(name("call-", i))
	}
	return all
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

// newDatabase makes a file a copy of an empty database, unless it is there. In a
// bubble, [migrated] must have been called outside before.
func newDatabase(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	empty, err := migrated()
	if err != nil {
		return err
	}
	return os.WriteFile(path, empty, 0o600)
}

// unsynced opens a database as a host program does, without syncs: a file that a test throws
// away needs to survive no loss of power.
func unsynced(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	must(t, newDatabase(path))
	db, err := sql.Open("sqlite", sqlite.DSN(path)+"&_pragma=synchronous(off)")
	must(t, err)
	db.SetMaxOpenConns(2) // one that reads and one that writes: each has to learn the schema
	return sqlite.New(db, sqlite.Options{})
}
