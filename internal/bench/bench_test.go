package bench_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/bench"
	"github.com/event-service-agent/timer-service/internal/crash"
)

// TestMain makes the binary of the test the broker too.
func TestMain(m *testing.M) {
	if crash.IsBroker() {
		if err := crash.ServeBroker(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestMeasures runs each workload for a moment: the figures mean nothing then,
// but that each timer fired once and not early is checked all the same.
func TestMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker and the service several times; left out by -short")
	}
	dir := t.TempDir()
	for name, opt := range map[string]bench.Options{
		"drain":                    {Timers: 2000, Lead: 6 * time.Second},
		"drain, synced, embedded":  {Timers: 2000, Lead: 6 * time.Second, Embedded: true},
		"drain, synced, a backlog": {Timers: 2000, Lead: 6 * time.Second, SyncAll: true, Pending: 5000},
	} {
		opt.Dir = dir
		t.Run(name, func(t *testing.T) {
			r, err := bench.Drain(t.Context(), opt)
			if err != nil {
				t.Fatal(err)
			}
			if r.Accepted <= 0 || r.Delivered <= 0 || r.IntakeCPU.Service+r.FiringCPU.Service <= 0 || r.PeakMiB <= 0 || r.Lateness == nil {
				t.Errorf("measured %+v", r)
			}
		})
	}
	t.Run("steady", func(t *testing.T) {
		r, err := bench.Steady(t.Context(), bench.Options{Rate: 200, Duration: 2 * time.Second, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if l := r.Lateness; l == nil || l.P50 <= 0 || l.P50 > l.P99 || l.P99 > l.Max {
			t.Errorf("lateness %+v", l)
		}
		var picture strings.Builder
		if err := bench.Draw(&picture, "lateness", r); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, picture.String())
	})
	t.Run("idle", func(t *testing.T) {
		r, err := bench.Idle(t.Context(), bench.Options{Duration: time.Second, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if r.IdleWrittenBytes != 0 {
			t.Errorf("an idle service wrote %d bytes", r.IdleWrittenBytes)
		}
	})
	t.Run("native", func(t *testing.T) {
		if _, err := bench.Native(t.Context(), bench.Options{Timers: 500, Lead: 2 * time.Second, Dir: dir}); err != nil {
			t.Fatal(err)
		}
	})
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	t.Parallel()
	if err := bench.Draw(io.Discard, "", bench.Result{}); err == nil {
		t.Error("drew a result without lateness")
	}
}
