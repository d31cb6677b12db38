//go:build linux

package power

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

func TestFrozenProcessIsSeenStopped(t *testing.T) {
	t.Parallel()
	w, err := startWriter(t.Context(), filepath.Join(t.TempDir(), "records"), "no")
	harness.Must(t, err)
	defer w.Kill()
	if stopped, err := isStopped(w.PID()); stopped || err != nil {
		t.Errorf("before: stopped %v, error %v", stopped, err)
	}
	harness.Must(t, freeze(t.Context(), []int{w.PID()}))
	if stopped, err := isStopped(w.PID()); !stopped || err != nil {
		t.Errorf("after: stopped %v, error %v", stopped, err)
	}
}

func TestCountsIntactRecords(t *testing.T) {
	t.Parallel()
	whole := slices.Concat(record(1), record(2), record(3))
	spoiled := slices.Clone(whole)
	spoiled[recordBytes+100] = 0
	for name, tt := range map[string]struct {
		text []byte
		want int
	}{
		"all":             {whole, 3},
		"a torn last one": {whole[:len(whole)-1], 2},
		"a spoiled one":   {spoiled, 1},
		"zeros":           {make([]byte, 2*recordBytes), 0},
		"empty":           {nil, 0},
		"the wrong ones":  {record(2), 0},
		"one twice":       {slices.Concat(record(1), record(1)), 1},
	} {
		file := filepath.Join(t.TempDir(), "records")
		harness.Must(t, os.WriteFile(file, tt.text, 0o600))
		if got, err := intact(file); got != tt.want || err != nil {
			t.Errorf("%s: %d records, error %v, want %d", name, got, err, tt.want)
		}
	}
	if got, err := intact(filepath.Join(t.TempDir(), "none")); got != 0 || err != nil {
		t.Errorf("no file: %d records, error %v, want none", got, err)
	}
}

func TestVoidControls(t *testing.T) {
	t.Parallel()
	good := ControlReport{Cuts: 2, Synced: WriterCount{Acked: 10}, Unsynced: WriterCount{Acked: 10, Lost: 1}}
	if err := good.Void(); err != nil {
		t.Errorf("%+v: %v", good, err)
	}
	for name, spoil := range map[string]func(*ControlReport){
		"no cuts":                func(c *ControlReport) { c.Cuts = 0 },
		"nothing acked":          func(c *ControlReport) { c.Synced.Acked = 0 },
		"synced records lost":    func(c *ControlReport) { c.Synced.Lost = 1 },
		"no unsynced one lost":   func(c *ControlReport) { c.Unsynced.Lost = 0 },
		"nothing unsynced acked": func(c *ControlReport) { c.Unsynced.Acked = 0 },
	} {
		c := good
		spoil(&c)
		if c.Void() == nil {
			t.Errorf("%s: not void: %+v", name, c)
		}
	}
}
