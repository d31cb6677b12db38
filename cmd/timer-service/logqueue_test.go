package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/internal/logbuf"
)

// pipe returns the two ends of a pipe.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// fill writes into a pipe until it takes nothing more.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Skipf("SKIPPED, NOTHING IS PROVEN: pipes have no deadlines here: %v", err)
	}
	if _, err := w.Write(make([]byte, 4<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}

// TestServeDoesNotWaitForItsLog, which goes into a pipe that is full and that nobody reads, or
// whose reader is gone. The service fires, answers, and stops cleanly.
func TestServeDoesNotWaitForItsLog(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		t.Run(map[bool]string{false: "the reader stalls", true: "the reader dies"}[dies], func(t *testing.T) {
			t.Parallel()
			r, w := pipe(t)
			if !dies {
				fill(t, w)
			}
			p := prepare(t, []string{"TIMER_LOG_LEVEL=info", "TIMER_LOG_FX=true"}, "main", "serve", "--nats-port", "0", "--http-addr", "127.0.0.1:0")
			p.Cmd.Stderr = w
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() }).Stop()
			_ = w.Close()
			server := p.announces(t, "http")
			p.prints(t, "ready")
			if dies {
				_ = r.Close()
			}
			for i := range 3 {
				put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("%s/v1/tenants/acme/timers/order-%d?wait=20s", server, i), strings.NewReader(`{"in":"0"}`))
				if err != nil {
					t.Fatal(err)
				}
				put.Header.Set("Content-Type", "application/json")
				answered(t, put)
			}
			live, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/livez", nil)
			if err != nil {
				t.Fatal(err)
			}
			answered(t, live)
			p.signal(t, syscall.SIGTERM)
			p.prints(t, "stopped")
			if code := p.ends(t); code != exitOK {
				t.Errorf("exit code %d, %v", code, p.ProcessState)
			}
		})
	}
}

// announces waits for the line of a part, and returns what it says up to a comma.
func (p *process) announces(t *testing.T, part string) string {
	t.Helper()
	p.prints(t, part+" ")
	text, _, _ := strings.Cut(strings.TrimPrefix(p.lines.Text(), part), ",")
	return strings.TrimSpace(text)
}

// answered sends a request that must succeed.
func answered(t *testing.T, r *http.Request) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		t.Errorf("%s: %s %s", r.URL, answer.Status, body)
	}
}

// TestServeSaysWhyItEndsToAReaderThatIsLate, and ends in time if the reader does not come.
func TestServeSaysWhyItEndsToAReaderThatIsLate(t *testing.T) {
	t.Parallel()
	for _, comes := range []bool{true, false} {
		r, w := pipe(t)
		fill(t, w)
		p := prepare(t, nil, "main", "serve", "--nats-port", "0", "--db-path", "no/such/folder.db")
		p.Cmd.Stderr = w
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() })
		_ = w.Close()
		said := make(chan []byte, 1)
		go func() {
			if !comes {
				<-t.Context().Done()
			}
			text, _ := io.ReadAll(r)
			said <- text
		}()
		if code := p.ends(t); code != exitFailure {
			t.Errorf("exit code %d, %v", code, p.ProcessState)
		}
		kill.Stop()
		if comes && !strings.HasSuffix(string(<-said), "there is no folder no/such\n") {
			t.Error("it does not say why it ends")
		}
	}
}

// A valve is a writer that takes nothing until it is opened, and may fail.
type valve struct {
	logbuf.Buffer
	open chan struct{}
	err  error
}

func (v *valve) Write(p []byte) (int, error) {
	<-v.open
	if v.err != nil {
		return 0, v.err
	}
	return v.Buffer.Write(p)
}

// TestQueueSaysHowManyLinesAreMissing, where they are missing. Lines for debugging leave room
// for all others.
func TestQueueSaysHowManyLinesAreMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &valve{open: make(chan struct{})}
		q := &queue{w: v}
		log := q.logger(slog.NewTextHandler(q, &slog.HandlerOptions{Level: slog.LevelDebug})).With("a", 1).WithGroup("g")
		log.Info("first")
		synctest.Wait() // it is being written
		many := 10_000
		for range many {
			log.Debug("third", "x", strings.Repeat("x", 100))
		}
		if q.lost == 0 || len(q.waiting) > maxQueued/2 {
			t.Fatalf("%d lines lost, %d bytes wait", q.lost, len(q.waiting))
		}
		kept := many - q.lost
		log.Info("second")
		close(v.open)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(v.String()), "\n")
		if last := lines[len(lines)-1]; len(lines) != kept+3 || !strings.Contains(last, fmt.Sprintf("level=WARN msg=\"log lines are missing here: they were not read in time\" lines=%d", many-kept)) || !strings.Contains(lines[kept+1], "second a=1") {
			t.Errorf("%d lines, want %d, the last: %s", len(lines), kept+3, last)
		}
	})
}

// TestQueueGoesOnAfterAnError, and counts what it lost by it.
func TestQueueGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &valve{open: make(chan struct{}), err: syscall.ENOSPC}
		close(v.open)
		q := &queue{w: v}
		log := q.logger(slog.NewJSONHandler(q, nil))
		log.Info("first")
		q.flush()
		v.err = nil
		log.Info("second")
		q.flush()
		if got := v.String(); !strings.Contains(got, `"second"`) || !strings.Contains(got, `"lines":1`) || strings.Count(got, "\n") != 2 {
			t.Errorf("%s", got)
		}
	})
}

// TestQueueWaitsForWhatPeopleDid: until it is written, for a second at most, and for no other line.
func TestQueueWaitsForWhatPeopleDid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &valve{open: make(chan struct{})}
		q := &queue{w: v}
		log := q.logger(slog.NewTextHandler(q, nil))
		began := time.Now()
		log.Error("anything")
		if took := time.Since(began); took > 0 {
			t.Errorf("waited for %v", took)
		}
		log.Info("an operator changed something")
		if took := time.Since(began); took != flushTimeout {
			t.Errorf("waited for %v", took)
		}
		close(v.open)
		log.Info("an operator changed something", "n", 2)
		if !bytes.Contains([]byte(v.String()), []byte("n=2")) {
			t.Errorf("%s", v.String())
		}
	})
}

// TestDurationsInJSONAreText, not nanoseconds.
func TestDurationsInJSONAreText(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	logger(config.Config{LogFormat: config.JSON}, &out, "serve").Info("waits", "retry_in", 1500*time.Millisecond)
	if !strings.Contains(out.String(), `"retry_in":"1.5s"`) {
		t.Error(out.String())
	}
}
