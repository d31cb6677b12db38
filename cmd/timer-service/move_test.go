package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/broker/nats/embedded"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestMoveATenant moves a tenant between two services that run, there and back, while
// its timers and those of another tenant are due. Each fires at one of the two, once.
func TestMoveATenant(t *testing.T) {
	t.Parallel()
	type side struct {
		url, db string
		reader  *sqlite.Reader
	}
	var sides []side
	for range 2 {
		server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer server.Shutdown()
		p := start(t, "main", "serve", "--broker-url", server.URL())
		p.prints(t, "ready")
		defer func() {
			p.signal(t, syscall.SIGTERM)
			if code := p.ends(t); code != exitOK {
				t.Errorf("exit code %d", code)
			}
		}()
		db := filepath.Join(p.Dir, "event_service.db")
		reader, err := sqlite.OpenReader(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		sides = append(sides, side{server.URL(), db, reader})
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
	do(t, nil, "publish", file, "--broker-url", sides[0].url).wants(t, exitOK)

	fired := func(s side, tenant timer.TenantID) int64 {
		c, err := s.reader.Counts(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		return c.Reached
	}
	until := func(what string, happened func() bool) {
		t.Helper()
		for limit := time.Now().Add(30 * time.Second); !happened(); pause.For(t.Context(), 5*time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("waited in vain until %s", what)
			}
		}
	}
	moveTo := func(name string, from, to side) {
		path := filepath.Join(t.TempDir(), name)
		t.Log(do(t, nil, "export", path, "--tenant", "acme", "--db-path", from.db, "--broker-url", from.url).wants(t, exitOK).stdout)
		for range 2 { // it may be repeated
			do(t, nil, "import", path, "--tenant", "acme", "--broker-url", to.url).wants(t, exitOK)
		}
		do(t, nil, "import", path, "--tenant", "beta", "--broker-url", to.url).wants(t, exitFailure)
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
