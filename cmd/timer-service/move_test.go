package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestMoveATenant moves a tenant between two services that run, there and back, while
// its timers and those of another tenant are due. Each fires at one of the two, once.
func TestMoveATenant(t *testing.T) {
	t.Parallel()
	type side struct {
		db     string
		reader *sqlite.Reader
	}
	var sides []side
	for range 2 {
		db, stop := serveBesideBroker(t)
		defer stop()
		reader, err := sqlite.OpenReader(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		sides = append(sides, side{db, reader})
	}
	const calls = 300
	began := time.Now()
	var lines strings.Builder
	var keys []timer.Key
	for n := range calls {
		for _, tenant := range []timer.TenantID{"acme", "beta"} {
			k := timer.Key{TenantID: tenant, ServiceCallID: timer.ServiceCallID(fmt.Sprint("call-", n))}
			keys = append(keys, k)
			lines.Write(append(envelope.Schedule(timer.ScheduleTimer{
				Key: k, Version: timer.Version{TimestampMS: began.UnixMilli(), CommandID: fmt.Sprint(tenant, "-", n)},
				DueAt: began.Add(time.Duration(n) * 10 * time.Millisecond), Data: strconv.Itoa(n),
			}), '\n'))
		}
	}
	// One is far away, which shows that each move took place, however slow the machine is.
	far := timer.Key{TenantID: "acme", ServiceCallID: "far"}
	lines.Write(append(envelope.Schedule(timer.ScheduleTimer{
		Key: far, Version: timer.Version{TimestampMS: began.UnixMilli(), CommandID: "far"}, DueAt: began.Add(time.Hour),
	}), '\n'))
	file := filepath.Join(t.TempDir(), "commands.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, nil, "publish", file, "--db-path", sides[0].db).wants(t, exitOK)

	fired := func(s side, tenant timer.TenantID) int64 {
		c, err := s.reader.Stats(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		return c.Reached
	}
	until := func(what string, happened func() bool) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); !happened(); pause.For(t.Context(), 5*time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("waited in vain until %s", what)
			}
		}
	}
	moveTo := func(name string, from, to side) {
		path := filepath.Join(t.TempDir(), name)
		t.Log(do(t, nil, "export", path, "--tenant", "acme", "--db-path", from.db).wants(t, exitOK).stdout)
		for range 2 { // it may be repeated
			do(t, nil, "import", path, "--tenant", "acme", "--db-path", to.db).wants(t, exitOK)
		}
		do(t, nil, "import", path, "--tenant", "beta", "--db-path", to.db).wants(t, exitFailure)
	}
	waits := func(s side) func() bool {
		return func() bool {
			e, err := s.reader.Get(t.Context(), far)
			return err == nil && e.State == timer.Scheduled
		}
	}
	until("all are accepted", waits(sides[0]))
	moveTo("there", sides[0], sides[1])
	until("the far one is there", waits(sides[1]))
	moveTo("back", sides[1], sides[0])
	until("the far one is back", waits(sides[0]))
	until("all have fired", func() bool {
		return fired(sides[0], "acme")+fired(sides[1], "acme") >= calls && fired(sides[0], "beta") == calls
	})
	for _, k := range keys {
		times := 0
		for _, s := range sides {
			switch e, err := s.reader.Get(t.Context(), k); {
			case err != nil: // it was never here
			case e.State == timer.Reached:
				times++
			case e.State == timer.Scheduled:
				t.Errorf("%s still waits at one of the services", k)
			}
		}
		if times != 1 {
			t.Errorf("%s fired %d times", k, times)
		}
	}
	if waits(sides[1])() {
		t.Error("the far one waits at both services")
	}
}

// A file that was cut is not imported, in whole or in part: what is missing would never
// fire, since it is canceled where it came from. Nor is one of all tenants: its timers
// were not canceled.
func TestImportOfATenantNeedsItsWholeFile(t *testing.T) {
	t.Parallel()
	all, file := beside(t, "all.jsonl"), beside(t, "acme.jsonl")
	do(t, nil, "export", all, "--db-path", populated(t)).wants(t, exitOK)
	text, err := os.ReadFile(all)
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.Replace(string(text), `"version":1`, `"version":1,"tenantId":"acme"`, 1)
	for want, spoiled := range map[string]string{
		"line 1: the file is empty":                     "",
		"line 6: the file ends here, without a trailer": whole[:strings.Index(whole, `{"kind":"timer","tenantId":"beta"`)],
		"line 6: timer beta.x-1 is not of tenant acme":  whole,
		"line 1: it is not an export of tenant acme":    string(text),
	} {
		if err := os.WriteFile(file, []byte(spoiled), 0o600); err != nil {
			t.Fatal(err)
		}
		got := do(t, nil, "import", file, "--tenant", "acme", "--broker-url", "nats://127.0.0.1:1").wants(t, exitFailure)
		if !strings.Contains(got.stderr, want) || !strings.Contains(got.stderr, "nothing was published") || got.stdout != "" {
			t.Errorf("prints %q and %q, want %q", got.stdout, got.stderr, want)
		}
	}
	if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := do(t, nil, "import", file, "--db-path", beside(t, "new.db")).wants(t, exitFailure).stderr; !strings.Contains(got, "timers of tenant acme alone: import it with --tenant acme") {
		t.Errorf("into a new database: %s", got)
	}
}

// What an export was killed in before it took anything is not gone on with, nor removed.
func TestAMoveRefusesWhatIsNotWhole(t *testing.T) {
	t.Parallel()
	file := beside(t, "acme.jsonl")
	if err := os.WriteFile(file+".partial", []byte(`{"kind":"header","format":"timer-service-export","version":1,"tenantId":"acme"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := do(t, nil, "export", file, "--tenant", "acme", "--db-path", populated(t)).wants(t, exitUsage).stderr
	if want := file + ".partial exists: it is being written, or an export was killed before it took anything; then delete it (line 2: the file ends here"; !strings.Contains(got, want) {
		t.Errorf("prints %s, want %s", got, want)
	}
	if err := os.Rename(file+".partial", file); err != nil {
		t.Fatal(err)
	}
	if got := do(t, nil, "export", file, "--tenant", "acme", "--db-path", populated(t)).wants(t, exitUsage).stderr; !strings.Contains(got, file+" exists: name a file that does not") {
		t.Errorf("prints %s", got)
	}
}

// An interrupted reader calls cancel when a phase of a move is over. From then on it
// fails, as the database does for a context that has ended.
type interruptedReader struct {
	timer.Reader
	phase  string
	cancel context.CancelFunc
}

func (r *interruptedReader) List(ctx context.Context, filter timer.Filter) (timer.Page, error) {
	page, err := r.Reader.List(ctx, filter)
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
	return r.Reader.Get(ctx, key)
}

// A move that is interrupted goes on with what it has written: what changed since stays
// where it is, and nothing is left out.
func TestAnInterruptedMoveGoesOn(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"written", "released"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			db, stop := serveBesideBroker(t)
			defer stop()
			flags := []string{"--db-path", db}
			cfg, err := config.Try(map[string]string{"db_path": db}, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			e := &env{cfg: cfg, log: slog.New(slog.DiscardHandler), out: output{w: io.Discard}, stderr: io.Discard, now: time.Now}
			source, err := service.Reader(t.Context(), e.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer source.Close()
			schedule := func(call timer.ServiceCallID, id string) {
				t.Helper()
				key, now := timer.Key{TenantID: "acme", ServiceCallID: call}, time.Now()
				command := envelope.Schedule(timer.ScheduleTimer{Key: key, Version: timer.Version{TimestampMS: now.UnixMilli(), CommandID: id}, DueAt: now.Add(time.Hour)})
				do(t, nil, append([]string{"publish", fileOf(t, string(command))}, flags...)...).wants(t, exitOK)
				for limit := time.Now().Add(time.Minute); ; pause.For(t.Context(), 5*time.Millisecond) {
					if e, err := source.Get(t.Context(), key); err == nil && e.Version.CommandID == id {
						return
					}
					if time.Now().After(limit) {
						t.Fatalf("waited in vain for %s", id)
					}
				}
			}
			schedule("a", "a-1")
			schedule("b", "b-1")
			schedule("changed", "changed-1")

			path := beside(t, "acme.jsonl")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := &move{tenant: "acme", from: &interruptedReader{source, phase, cancel}, path: path}
			if err := m.run(ctx, e); err == nil || !strings.Contains(err.Error(), "run it again, which goes on with "+path+".partial") {
				t.Fatalf("interrupted: %v", err)
			}
			if files, _ := filepath.Glob(path + "*"); len(files) != 1 || files[0] != path+".partial" {
				t.Fatalf("after the interrupt there are %v", files)
			}
			schedule("changed", "changed-2")
			schedule("later", "later-1")

			do(t, nil, append([]string{"export", path, "--tenant", "acme"}, flags...)...).wants(t, exitOK)
			var moved []string
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if _, err := store.ReadExport(file, "acme", func(e timer.Entry) error {
				moved = append(moved, string(e.ServiceCallID))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if want := []string{"a", "b"}; !slices.Equal(moved, want) {
				t.Errorf("moved %q, want %q", moved, want)
			}
			if files, _ := filepath.Glob(path + "*"); len(files) != 1 || files[0] != path {
				t.Errorf("after the second run there are %v", files)
			}
			for call, want := range map[timer.ServiceCallID]timer.State{"a": timer.Canceled, "b": timer.Canceled, "changed": timer.Scheduled, "later": timer.Scheduled} {
				e, err := source.Get(t.Context(), timer.Key{TenantID: "acme", ServiceCallID: call})
				if err != nil || e.State != want {
					t.Errorf("%s is %v (%v), want %v", call, e.State, err, want)
				}
			}
		})
	}
}

// serveBesideBroker starts a service and a broker of its own, which stop ends.
func serveBesideBroker(t *testing.T) (db string, stop func()) {
	t.Helper()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "main", "serve", "--broker-url", server.URL())
	p.prints(t, "ready")
	return filepath.Join(p.Dir, "event_service.db"), func() {
		p.signal(t, syscall.SIGTERM)
		if code := p.ends(t); code != exitOK {
			t.Errorf("exit code %d", code)
		}
		server.Shutdown()
	}
}
