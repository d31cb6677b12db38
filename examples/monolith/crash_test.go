package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// childEnv names the database of a process that is the monolith, and no test.
const childEnv = "MONOLITH_TEST_DATABASE"

const (
	longestLife = 150 * time.Millisecond // of a process, after its start
	longestDue  = 100 * time.Millisecond // after the booking
	longestWork = 4 * time.Millisecond   // of the endpoint, before and after it counts
)

func TestMain(m *testing.M) {
	path := os.Getenv(childEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	if err := child(path, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child runs the monolith, prints the address of its page, and stops when in ends and
// each service call was run.
func child(path string, in io.Reader, out io.Writer) error {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var db *sql.DB
	program := fx.New(Monolith(path, socket), fx.NopLogger, fx.Populate(&db))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := program.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "http://"+socket.Addr().String())
	_, err = io.Copy(io.Discard, in)
	for n := 1; n > 0 && err == nil; pause.For(ctx, time.Millisecond) {
		err = db.QueryRowContext(ctx, `SELECT count(*) FROM service_calls WHERE state IN ('Scheduled', 'Running')`).Scan(&n)
	}
	return errors.Join(err, program.Stop(ctx))
}

// TestKilledAtRandom kills the monolith while calls are booked and run. What it answered
// was booked. Each call is made at least once and recorded once.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	kills := 10
	if os.Getenv("TIMER_TEST_LONG") != "" {
		kills = 500
	}
	path := filepath.Join(t.TempDir(), "monolith.db")
	db := openCounted(t, path)
	e := newCountingEndpoint(t)
	booked := make(map[string]bool)
	for run := range kills {
		process := launch(t, path)
		end := time.AfterFunc(rand.N(longestLife), func() { _ = process.cmd.Process.Kill() })
		for n := 0; process.book(fmt.Sprintf("call-%d-%d", run, n), e.URL); n++ {
			booked[fmt.Sprintf("acme.call-%d-%d", run, n)] = true
		}
		_ = process.cmd.Wait() // it was killed
		end.Stop()
	}
	last := launch(t, path)
	if err := errors.Join(last.in.Close(), last.cmd.Wait()); err != nil {
		t.Fatal(err)
	}

	rows, err := db.QueryContext(t.Context(), `
		SELECT tenant_id || '.' || service_call_id, state, (SELECT count(*) FROM recorded r WHERE r.call = c.rowid)
		  FROM service_calls c`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	calls, again := 0, 0
	for rows.Next() {
		var key, state string
		var recorded int
		if err := rows.Scan(&key, &state, &recorded); err != nil {
			t.Fatal(err)
		}
		made := e.made[key]
		if state != "Succeeded" || made < 1 || recorded != 1 {
			t.Errorf("%s is %s, was made %d times, and recorded %d times", key, state, made, recorded)
		}
		calls++
		again += made - 1
		delete(booked, key)
		delete(e.made, key)
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
	if len(booked)+len(e.made) > 0 {
		t.Errorf("booked and not there: %v, made and never booked: %v", booked, e.made)
	}
	t.Logf("%d kills, %d calls, %d requests made again", kills, calls, again)
}

// openCounted makes the database, and has it count how often calls are recorded.
func openCounted(t *testing.T, path string) *sql.DB {
	db, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	_, err = db.ExecContext(t.Context(), createServiceCalls+`;
		CREATE TABLE recorded (call INTEGER NOT NULL) STRICT;
		CREATE TRIGGER recorded AFTER UPDATE OF state ON service_calls WHEN NEW.state IN ('Succeeded', 'Failed')
		BEGIN INSERT INTO recorded (call) VALUES (NEW.rowid); END`)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// A countingEndpoint counts requests by key.
type countingEndpoint struct {
	*httptest.Server
	mu   sync.Mutex
	made map[string]int
}

func newCountingEndpoint(t *testing.T) *countingEndpoint {
	e := &countingEndpoint{made: make(map[string]int)}
	e.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx := context.WithoutCancel(r.Context())
		pause.For(ctx, rand.N(longestWork))
		e.mu.Lock()
		e.made[r.Header.Get(headerKey)]++
		e.mu.Unlock()
		pause.For(ctx, rand.N(longestWork))
	}))
	t.Cleanup(e.Close)
	return e
}

// A process is the monolith as a child.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	url string
}

// launch starts the monolith, and returns when it answers.
func launch(t *testing.T, path string) *process {
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this program
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("the monolith does not start: ", err)
	}
	return &process{cmd: cmd, in: in, url: strings.TrimSpace(line)}
}

// book books a call, and reports whether the monolith says that it did.
func (p *process) book(call, endpoint string) bool {
	form := url.Values{"tenant": {"acme"}, "call": {call}, "after": {rand.N(longestDue).String()}, "url": {endpoint}}
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.PostForm(p.url+"/calls", form)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusSeeOther
}
