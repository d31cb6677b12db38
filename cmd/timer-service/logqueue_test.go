package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	must(t, err)
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
	for name, dies := range map[string]bool{"the reader stalls": false, "the reader dies": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := pipe(t)
			if !dies {
				fill(t, w)
			}
			p := prepare(t, []string{"TIMER_LOG_LEVEL=debug"}, "main", "serve", "--nats-port", "0", "--http-addr", "127.0.0.1:0")
			p.Cmd.Stderr = w
			must(t, p.Start())
			defer time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() }).Stop()
			_ = w.Close()
			server := p.announces(t, "http")
			p.prints(t, "ready")
			if dies {
				_ = r.Close()
			}
			for range 3 {
				do(t, nil, "schedule", "acme", "--in", "0", "--until-fired", "--server", server).wants(t, exitOK)
			}
			p.signal(t, syscall.SIGTERM)
			p.prints(t, "stopped")
			p.ends(t).wants(t, exitOK)
		})
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

// TestServeSaysWhyItEndsToAReaderThatIsLate has a log that takes nothing at first.
func TestServeSaysWhyItEndsToAReaderThatIsLate(t *testing.T) {
	t.Parallel()
	v := &valve{open: make(chan struct{})}
	defer time.AfterFunc(flushTimeout/5, func() { close(v.open) }).Stop()
	code := run(t.Context(), []string{"serve", "--nats-port", "0", "--db-path", "no/such/folder.db"}, nil, io.Discard, v)
	if said := v.String(); code != exitFailure || !strings.HasSuffix(said, "there is no folder no/such\n") {
		t.Errorf("exit code %d, it says %q", code, said)
	}
}

// TestQueueSaysHowManyLinesAreMissing, where they are missing.
func TestQueueSaysHowManyLinesAreMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &valve{open: make(chan struct{})}
		q := newQueue(v)
		defer close(q.waiting)
		log := q.logger(slog.NewTextHandler(q, &slog.HandlerOptions{Level: slog.LevelDebug})).With("a", 1).WithGroup("g")
		log.Info("first")
		synctest.Wait() // it is being written
		many := 2 * maxQueued
		for range many {
			log.Debug("second", "x", strings.Repeat("x", 100))
		}
		lost := int(q.lost.Load())
		if lost != many-maxQueued {
			t.Fatalf("%d lines lost, want %d", lost, many-maxQueued)
		}
		close(v.open)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(v.String()), "\n")
		if last := lines[len(lines)-1]; len(lines) != many-lost+2 || !strings.Contains(last, fmt.Sprintf("level=WARN msg=\"log lines are missing here: they were not read in time\" lines=%d", lost)) || !strings.Contains(lines[1], "second a=1") {
			t.Errorf("%d lines, want %d, the last: %s", len(lines), many-lost+2, last)
		}
	})
}

// TestQueueGoesOnAfterAnError, and counts the lines that it lost by it.
func TestQueueGoesOnAfterAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &valve{open: make(chan struct{}), err: syscall.ENOSPC}
		close(v.open)
		q := newQueue(v)
		defer close(q.waiting)
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

// TestQueueWaitsForWhatPeopleDid: at most a second until it is written, and for no other line.
func TestQueueWaitsForWhatPeopleDid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &valve{open: make(chan struct{})}
		q := newQueue(v)
		defer close(q.waiting)
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
