package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

// serving runs the service on a database and an embedded broker of its own
// until the test ends, and returns the environment that clients need.
func serving(t *testing.T, environ ...string) []string {
	t.Helper()
	environ = append(environ, "TIMER_DB_PATH="+filepath.Join(t.TempDir(), "timers.db"), "TIMER_NATS_PORT=0")
	serve(t, environ)
	return environ
}

// serve runs the service until stop is called, or the test ends.
func serve(t *testing.T, environ []string) (stop func()) {
	t.Helper()
	p := startIn(t, environ, "main", "serve")
	p.prints(t, "ready")
	return func() {
		t.Helper()
		p.signal(t, os.Interrupt)
		p.ends(t).wants(t, exitOK)
	}
}

// decode reads the one object that a verb printed.
func decode(t *testing.T, stdout string) (p map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(stdout), &p); err != nil || strings.Count(stdout, "\n") != 1 {
		t.Fatalf("want one object on one line: %v\n%s", err, stdout)
	}
	return p
}

// has fails the test unless the object has these values among others.
func has(t *testing.T, got map[string]any, want map[string]any) {
	t.Helper()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %v, want %v", key, got[key], value)
		}
	}
}

func TestScheduleWaitsForTheEvent(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	args := []string{"schedule", "acme", "order-1", "--in", "50ms", "--until-fired", "--correlation", "req-7"}
	text := do(t, environ, args...).wants(t, exitOK).prints(t, "scheduled  acme.order-1  due ", "  id ", "\nreached    acme.order-1  ", " late\n")
	if strings.Count(text.stdout, "\n") != 2 || text.stderr != "" {
		t.Errorf("prints %q and %q", text.stdout, text.stderr)
	}
	args[2] = "order-2"
	got := decode(t, do(t, environ, append(args, "-o", "json")...).wants(t, exitOK).stdout)
	has(t, got, map[string]any{
		"result": resultReached, "type": "ScheduleTimer", "tenantId": "acme", "serviceCallId": "order-2", "correlationId": "req-7",
		"latenessMs": float64(parseTime(got["reachedAt"].(string)).Sub(parseTime(got["dueAt"].(string))).Milliseconds()),
	})
	shown := decode(t, do(t, environ, "get", "acme", "order-2", "-o", "json").wants(t, exitOK).stdout)
	has(t, shown, map[string]any{"state": "Reached", "dueAt": got["dueAt"], "reachedAt": got["reachedAt"], "commandId": got["id"]})

	// --wait ends when the command took effect, however far ahead the due time is.
	do(t, environ, "schedule", "acme", "later", "--in", "1h", "--wait").wants(t, exitOK).prints(t, "scheduled  acme.later  due ")

	// A time in the past is due at once.
	args = []string{"schedule", "acme", "order-3", "--at", "2020-02-29T12:00:00.0001+01:00", "--until-fired", "-o", "json"}
	has(t, decode(t, do(t, environ, args...).wants(t, exitOK).stdout), map[string]any{"result": resultReached, "dueAt": "2020-02-29T11:00:00.001Z"})
}

// A dead letter says why, and ends the wait before the timeout.
func TestSchedulePrintsTheDeadLetter(t *testing.T) {
	t.Parallel()
	environ := serving(t, "TIMER_QUOTAS_FILE="+fileOf(t, "default: {live_timers: 1, over_quota: dead_letter}"))
	do(t, environ, "schedule", "acme", "order-1", "--in", "2h", "--wait").wants(t, exitOK)
	do(t, environ, "schedule", "acme", "order-2", "--in", "2h", "--wait").wants(t, exitFailure).says(t, "acme.order-2: refused: ", "over_quota")
}

// The service checks the values; a refusal is a mistake of usage.
func TestScheduleOfWhatTheServiceRefuses(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	for says, flags := range map[string][]string{
		"expiresAt must be after dueAt": {"--in", "3s", "--expires-in", "3s"},
		"outside 2000 to 2200":          {"--in", "73000d"},
		"beyond the horizon of 87600h":  {"--in", "4000d"},
		"in must be a duration with a unit, such as 90s, 1h or 7d, and not negative": {"--in", "-5s"},
	} {
		do(t, environ, append([]string{"schedule", "acme", "order-1"}, flags...)...).wants(t, exitUsage).says(t, says)
	}
}

func TestScheduleEndsAfterTheTimeout(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	do(t, environ, "pause").wants(t, exitOK)
	args := []string{"schedule", "acme", "order-1", "--in", "10ms", "--until-fired", "--timeout", "90ms", "-o", "json"}
	got := do(t, environ, args...).wants(t, exitFailure).says(t, "acme.order-1: no answer within 90ms", "timer-service get acme order-1", "timer-service stats acme")
	has(t, decode(t, got.stdout), map[string]any{"serviceCallId": "order-1"})
}

func TestScheduleStopsWaitingWhenInterrupted(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	printed, out := io.Pipe()
	var stderr strings.Builder
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"schedule", "acme", "order-1", "--in", "1h", "--until-fired"}, environ, out, &stderr)
		out.Close()
	}()
	if line, err := bufio.NewReader(printed).ReadString('\n'); err != nil || !strings.HasPrefix(line, "scheduled") {
		t.Fatalf("prints %q (%v), want that it is scheduled", line, err)
	}
	interrupt()
	if got := <-code; got != exitFailure || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit code %d, want %d and that it was interrupted: %s", got, exitFailure, stderr.String())
	}
}

func TestManyTimersAreMovedAndCanceled(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	calls := []string{"order-1.a", "order-1.b", "order-10", "order-2.a", "order-2.b", "order-20"}
	for _, call := range calls {
		do(t, environ, "schedule", "acme", call, "--in", "1h", "--expires-in", "3h", "--correlation", "req-"+call).wants(t, exitOK)
	}
	for _, call := range calls {
		await(t, environ, call, "Scheduled")
	}
	do(t, environ, "reschedule", "acme", "--prefix", "order-1.", "--to", "2090-01-31T12:00:00Z", "--dry-run").wants(t, exitOK).
		prints(t, "counted    2 timers of acme\n", "order-1.a  due 20", "refused    2 of them, which would be due after they expire: order-1.a order-1.b")
	do(t, environ, "reschedule", "acme", "--prefix", "order-1.", "--by", "90m", "-o", "json").wants(t, exitOK).prints(t, `"result":"published"`, `"timers":2`)
	do(t, environ, "reschedule", "acme", "--correlated", "req-order-10", "--in", "0s").wants(t, exitOK).prints(t, "published  1 timers of acme  id ")
	await(t, environ, "order-10", "Reached")
	do(t, environ, "reschedule", "acme", "order-1.a", "order-1.b", "--in", "0s").wants(t, exitOK).prints(t, "published  2 timers of acme  id ")
	await(t, environ, "order-1.a", "Reached")
	await(t, environ, "order-1.b", "Reached")
	do(t, environ, "cancel", "acme", "--prefix", "order-2.", "--dry-run").wants(t, exitOK).prints(t, "counted    2 timers of acme\n", "order-2.a  due 20")
	do(t, environ, "cancel", "acme", "--prefix", "order-2.", "-o", "json").wants(t, exitOK).prints(t, `"result":"published"`, `"timers":2`)
	do(t, environ, "cancel", "acme", "--correlated", "req-order-20").wants(t, exitOK).prints(t, "published  1 timers of acme  id ")
	for _, call := range calls[3:] {
		await(t, environ, call, "Canceled")
	}
	do(t, environ, "list", "acme", "--state", "Scheduled").wants(t, exitOK).says(t, "no timers")
	for _, line := range []string{
		"cancel acme", "cancel acme x --prefix y", "cancel acme --prefix x --correlated y", "cancel acme x --dry-run", "cancel acme --prefix x --wait",
		"reschedule acme x", "reschedule acme --prefix x", "reschedule acme --prefix x --correlated y --in 1h", "reschedule acme x --prefix y --in 1h",
		"reschedule acme x --in 1h --by 1h", "reschedule acme x --to 2090-01-31T12:00:00Z --by 1h",
	} {
		do(t, environ, strings.Fields(line)...).wants(t, exitUsage)
	}
}

// TestAMoveWhoseAnswerIsLostIsNotAskedForAgain has a service that moves the timers of two pages,
// and ends after the second one, on a connection that was used before.
func TestAMoveWhoseAnswerIsLostIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked = append(asked, r.Method+" "+r.URL.Query().Get("by")+" "+r.URL.Query().Get("after")); len(asked) > 1 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"result":"published","tenantId":"acme","timestampMs":1,"timers":1000,"next":"order-999"}`)
	}))
	defer s.Close()
	do(t, nil, "reschedule", "acme", "--prefix", "order-", "--by", "1h", "--server", s.URL).wants(t, exitFailure).says(t, "does not answer").prints(t, "published  1000 timers of acme")
	if got := strings.Join(asked, ", "); got != "POST 1h , POST 1h order-999" {
		t.Errorf("it asks %s", got)
	}
}

// TestScheduleEndsWhenThereWillBeNoEvent would take a minute if it waited.
func TestScheduleEndsWhenThereWillBeNoEvent(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	do(t, environ, "schedule", "acme", "order-1", "--in", "0", "--until-fired").wants(t, exitOK)
	do(t, environ, "schedule", "acme", "order-1", "--in", "0", "--until-fired").wants(t, exitFailure).says(t, "acme.order-1: ", "reached at 20")

	waiting, stderr := make(chan int, 1), new(strings.Builder)
	printed, out := io.Pipe()
	go func() {
		waiting <- run(t.Context(), []string{"schedule", "acme", "order-2", "--in", "1h", "--until-fired"}, environ, out, stderr)
		out.Close()
	}()
	lines := bufio.NewReader(printed)
	if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "scheduled") { // then it knows the timer
		t.Fatalf("prints %q (%v), want that it is scheduled", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	do(t, environ, "cancel", "acme", "order-2").wants(t, exitOK)
	if code := <-waiting; code != exitFailure || !strings.Contains(stderr.String(), "acme.order-2: a newer command replaced this one") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

// await waits until a timer has a state.
func await(t *testing.T, environ []string, call, state string) {
	t.Helper()
	for {
		got := do(t, environ, "get", "acme", call, "-o", "json")
		if got.code == exitOK && decode(t, got.stdout)["state"] == state {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal(got.stderr)
		}
	}
}

func TestCancelSaysWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	environ := serving(t)
	do(t, environ, "schedule", "acme", "fired", "--in", "0", "--until-fired").wants(t, exitOK)
	do(t, environ, "schedule", "acme", "waits", "--in", "1h").wants(t, exitOK)
	await(t, environ, "waits", "Scheduled")
	for _, tt := range []struct {
		call, prints, fails string
	}{
		{"waits", "(was due at 20", ""},
		{"waits", "(canceled before, at 20", ""},
		{"none", "(no such timer, the service keeps a tombstone)", ""},
		{"fired", "", "reached at 20"},
	} {
		code := exitOK
		if tt.fails != "" {
			code = exitFailure
		}
		got := do(t, environ, "cancel", "acme", tt.call, "--wait").wants(t, code)
		if canceled := strings.HasPrefix(got.stdout, "canceled   acme."+tt.call+"  "); !strings.Contains(got.stdout, tt.prints) || canceled == (tt.fails != "") || !strings.Contains(got.stderr, tt.fails) {
			t.Errorf("%s: prints %q, and %q", tt.call, got.stdout, got.stderr)
		}
	}
}

// handledLate is a database that handles a command some time after it was published.
type handledLate struct {
	timer.Reader
	at    time.Time
	entry timer.Entry
}

func (h handledLate) Get(context.Context, timer.Key) (timer.Entry, error) {
	if time.Now().Before(h.at) {
		return timer.Entry{}, timer.ErrNotFound
	}
	return h.entry, nil
}

// Delivery is asked for of a timer that has fired.
func (handledLate) Delivery(context.Context, string) (timer.Delivery, error) {
	return timer.Delivery{State: timer.Published}, nil
}

// The timeout counts from the command, or from the due time if the timer is to fire. The service
// waits for 20 s at most, whatever the timeout is.
func TestWaitLastsUntilTheTimeout(t *testing.T) {
	t.Parallel()
	own, newer, older := timer.Version{TimestampMS: 5, CommandID: "own"}, timer.Version{TimestampMS: 6, CommandID: "other"}, timer.Version{TimestampMS: 4, CommandID: "other"}
	for _, tt := range []struct {
		kind       string
		untilFired bool
		in         time.Duration // until it is due
		entry      timer.Entry   // from 25 s on; the service has waited for 20 before
		want       string        // the result, or a part of the error
		took       time.Duration // at least; less than a second more
	}{
		{envelope.TypeScheduleTimer, false, 0, timer.Entry{Version: own, State: timer.Scheduled}, "scheduled", 25 * time.Second},
		{envelope.TypeCancelTimer, false, 0, timer.Entry{Version: own, State: timer.Canceled}, "canceled", 25 * time.Second},
		{envelope.TypeScheduleTimer, true, 0, timer.Entry{Version: own, State: timer.Reached}, "reached", 25 * time.Second},
		{envelope.TypeScheduleTimer, false, 0, timer.Entry{Version: newer, State: timer.Scheduled}, "a newer command replaced this one", 25 * time.Second},
		{envelope.TypeCancelTimer, false, 0, timer.Entry{Version: older, State: timer.Reached}, "already reached", 25 * time.Second},
		{envelope.TypeScheduleTimer, true, 0, timer.Entry{Version: own, State: timer.Expired}, "already expired", 25 * time.Second},
		{envelope.TypeCancelTimer, false, 0, timer.Entry{Version: older, State: timer.Scheduled}, "no answer within 1m", 40 * time.Second},
		{envelope.TypeScheduleTimer, true, time.Hour, timer.Entry{Version: own, State: timer.Scheduled}, "no answer within 1m", time.Hour + time.Minute},
		{envelope.TypeScheduleTimer, true, -time.Hour, timer.Entry{Version: own, State: timer.Scheduled}, "no answer within 1m", 40 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			tt.entry.Key, tt.entry.DueAt, tt.entry.ReachedAt = timer.Key{TenantID: "acme", ServiceCallID: "order-1"}, began.Add(tt.in), began
			p := &publishResult{Type: tt.kind, Command: admin.Command{ID: "own", Result: resultPublished, TenantID: "acme", ServiceCallID: "order-1", TimestampMS: 5, DueAt: envelope.FormatTime(tt.entry.DueAt)}}
			late := handledLate{at: began.Add(25 * time.Second), entry: tt.entry}
			err := p.await(t.Context(), apiclient.Within(late), waitOptions{true, tt.untilFired, timeout(time.Minute)}, began.Add(-20*time.Second))
			if err == nil && p.Result != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s, %v: %s, %v, want %s", tt.kind, tt.entry.State, p.Result, err, tt.want)
			}
			if took := time.Since(began); took < tt.took || took >= tt.took+time.Second {
				t.Errorf("%s, %v: took %v, want %v", tt.kind, tt.entry.State, took, tt.took)
			}
		})
	}
}

// TestWaitOfTheServiceIsAPartOfTheTimeout has a service that has not handled the command within
// the time that it waits for.
func TestWaitOfTheServiceIsAPartOfTheTimeout(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodDelete {
			fmt.Fprint(w, `{"id":"own","result":"published","tenantId":"acme","serviceCallId":"order-1","timestampMs":5}`)
			return
		}
		fmt.Fprint(w, `{"tenantId":"acme","serviceCallId":"order-1","state":"Canceled","commandId":"own","timestampMs":5}`)
	}))
	defer s.Close()
	got := do(t, nil, "cancel", "acme", "order-1", "--wait", "--timeout", "1m", "--server", s.URL, "-o", "json").wants(t, exitOK)
	if all := objects(t, got.stdout); len(all) != 1 || all[0]["result"] != "canceled" {
		t.Errorf("prints %s", got.stdout)
	}
}

// TestLinesThatAreLeftOutAreAnError: an interrupt ends the reading, and is not the end of the file.
func TestLinesThatAreLeftOutAreAnError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lines := readLines(ctx, strings.NewReader(strings.Repeat("{}\n", 2*linesAhead)))
	if err := <-lines.failed; !errors.Is(err, errInterrupted) {
		t.Errorf("%d lines were read, and the error is %v", len(lines.all), err)
	}
}
