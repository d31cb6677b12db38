package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A side is a service that runs with a broker of its own, and its database.
type side struct {
	db     string
	reader *sqlite.Reader
}

// newSide starts a service until the test ends.
func newSide(t *testing.T) side {
	t.Helper()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), SyncLazily: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	p := start(t, "main", "serve", "--broker-url", server.URL())
	p.prints(t, "ready")
	s := side{db: filepath.Join(p.Dir, "event_service.db")}
	if s.reader, err = sqlite.OpenReader(t.Context(), s.db); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.reader.Close() })
	return s
}

// schedule publishes the first version of timers, or another one.
func (s side) schedule(t *testing.T, version int, timers ...timer.Entry) {
	t.Helper()
	var lines []string
	for _, e := range timers {
		e.Version = timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: fmt.Sprintf("%s-%d", e.Key, version)}
		lines = append(lines, string(envelope.Schedule(timer.ScheduleTimer{Key: e.Key, Version: e.Version, DueAt: e.DueAt})))
	}
	do(t, nil, "publish", fileOf(t, lines...), "--db-path", s.db).wants(t, exitOK)
	last := timers[len(timers)-1].Key
	until(t, "the last one is accepted", func() bool {
		e, err := s.reader.Get(t.Context(), last)
		return err == nil && e.CommandID == fmt.Sprintf("%s-%d", last, version)
	})
}

// state returns the state of a timer, or "" if it was never here.
func (s side) state(t *testing.T, key timer.Key) timer.State {
	t.Helper()
	e, err := s.reader.Get(t.Context(), key)
	if err != nil && !errors.Is(err, timer.ErrNotFound) {
		t.Fatal(err)
	}
	return e.State
}

// until waits until something has happened.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !happened(); pause.For(t.Context(), 5*time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func entry(tenant timer.TenantID, call string, due time.Time) timer.Entry {
	return timer.Entry{Key: timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(call)}, DueAt: due}
}

// TestMoveATenant moves a tenant between two services that run, while its timers and those
// of another tenant are due. Each fires at one of the two, once.
func TestMoveATenant(t *testing.T) {
	t.Parallel()
	from, to := newSide(t), newSide(t)
	began := time.Now()
	var timers []timer.Entry
	for n := range 300 {
		for _, tenant := range []timer.TenantID{"acme", "beta"} {
			timers = append(timers, entry(tenant, fmt.Sprint("call-", n), began.Add(time.Duration(n)*10*time.Millisecond)))
		}
	}
	far := entry("acme", "far", began.Add(time.Hour)) // shows that the move took place, however slow the machine is
	from.schedule(t, 1, append(timers, far)...)

	path := beside(t, "acme.jsonl")
	do(t, nil, "export", path, "--tenant", "acme", "--db-path", from.db).wants(t, exitOK)
	for range 2 { // it may be repeated
		do(t, nil, "import", path, "--tenant", "acme", "--db-path", to.db).wants(t, exitOK)
	}
	do(t, nil, "import", path, "--tenant", "beta", "--db-path", to.db).wants(t, exitFailure)
	until(t, "the far one is there", func() bool { return to.state(t, far.Key) == timer.Scheduled })
	if from.state(t, far.Key) != timer.Canceled {
		t.Error("the far one waits at both services")
	}
	for _, e := range timers {
		until(t, "each has fired", func() bool { return from.state(t, e.Key) == timer.Reached || to.state(t, e.Key) == timer.Reached })
	}
	for _, e := range timers {
		if here, there := from.state(t, e.Key), to.state(t, e.Key); here == timer.Scheduled || there == timer.Scheduled || here == there {
			t.Errorf("%s is %q where it was, and %q where it went", e.Key, here, there)
		}
	}
}

// A file that was cut is not imported, in whole or in part: what is missing would never
// fire, since it is canceled where it came from. Nor is one of all tenants: its timers
// were not canceled.
func TestImportOfATenantNeedsItsWholeFile(t *testing.T) {
	t.Parallel()
	all := beside(t, "all.jsonl")
	do(t, nil, "export", all, "--db-path", populated(t)).wants(t, exitOK)
	text, err := os.ReadFile(all)
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.Replace(string(text), `"version":1`, `"version":1,"tenantId":"acme"`, 1)
	for want, spoiled := range map[string]string{
		"line 6: the file ends here, without a trailer": whole[:strings.Index(whole, `{"kind":"timer","tenantId":"beta"`)],
		"line 1: it is not an export of tenant acme":    string(text),
	} {
		do(t, nil, "import", fileOf(t, spoiled), "--tenant", "acme", "--broker-url", "nats://127.0.0.1:1").wants(t, exitFailure).says(t, want, "nothing was published")
	}
	do(t, nil, "import", fileOf(t, whole), "--db-path", beside(t, "new.db")).wants(t, exitFailure).says(t, "timers of tenant acme alone: import it with --tenant acme")
}

// An interrupted reader calls cancel when a phase of a move is over. From then on it
// fails, as the database does for a context that has ended.
type interruptedReader struct {
	store.Source
	phase  string
	cancel context.CancelFunc
}

func (r *interruptedReader) List(ctx context.Context, filter timer.Filter) (timer.Page, error) {
	page, err := r.Source.List(ctx, filter)
	if r.phase == "written" && page.Next == "" {
		r.cancel()
	}
	return page, err
}

func (r *interruptedReader) Get(ctx context.Context, key timer.Key) (timer.Entry, error) {
	if r.phase == "released" {
		r.cancel()
	}
	if err := ctx.Err(); err != nil {
		return timer.Entry{}, err
	}
	return r.Source.Get(ctx, key)
}

// A move that is interrupted goes on with what it has written: what changed since stays
// where it is, and nothing is left out.
func TestAnInterruptedMoveGoesOn(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"written", "released"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			s, later := newSide(t), time.Now().Add(time.Hour)
			a, b, changed, added := entry("acme", "a", later), entry("acme", "b", later), entry("acme", "changed", later), entry("acme", "later", later)
			s.schedule(t, 1, a, b, changed)

			cfg, err := config.Load(map[string]string{"db_path": s.db}, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			e := &env{cfg: cfg, log: slog.New(slog.DiscardHandler), out: output{w: io.Discard}, stderr: io.Discard, now: time.Now}
			path := beside(t, "acme.jsonl")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := &move{tenant: "acme", from: &interruptedReader{s.reader, phase, cancel}, path: path}
			if err := m.run(ctx, e); err == nil || !strings.Contains(err.Error(), "run it again, which goes on with "+path+".before") {
				t.Fatalf("interrupted: %v", err)
			}
			if files, _ := filepath.Glob(path + "*"); !slices.Equal(files, []string{path + ".before"}) {
				t.Fatalf("after the interrupt there are %v", files)
			}
			s.schedule(t, 2, changed)
			s.schedule(t, 1, added)

			do(t, nil, "export", path, "--tenant", "acme", "--db-path", s.db).wants(t, exitOK).prints(t, "released 2 timers (2 Scheduled", "; 1 were left")
			if files, _ := filepath.Glob(path + "*"); !slices.Equal(files, []string{path}) {
				t.Errorf("after the second run there are %v", files)
			}
			for want, timers := range map[timer.State][]timer.Entry{timer.Canceled: {a, b}, timer.Scheduled: {changed, added}} {
				for _, e := range timers {
					if got := s.state(t, e.Key); got != want {
						t.Errorf("%s is %v, want %v", e.Key, got, want)
					}
				}
			}
		})
	}
}
