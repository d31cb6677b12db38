package services

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"testing"

	"github.com/event-service-agent/timer-service/verify/services/judge"
)

// TestServiceOutlivesFaults kills, freezes and cuts off the service on SQLite, and has both
// judges judge what came of it.
func TestServiceOutlivesFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: takes half a minute")
	}
	r, err := Run(t.Context(), Options{Service: "sqlite", Faults: 3, Seed: 5, Rate: 50, Delay: 2, Out: t.TempDir(), Progress: io.Discard})
	if errors.Is(err, judge.ErrNoPython) && os.Getenv("TIMER_TEST_REQUIRE") == "" {
		t.Skip("SKIPPED: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	v := r.Verdict
	if !v.Clean() || v.Faults != 3 || v.Events < 100 || v.Commands <= v.Events {
		t.Errorf("the history %s is judged as %+v", r.File, v)
	}
}

// TestFaultsAreThoseOfTheSeed compares the lists of faults that services are given.
func TestFaultsAreThoseOfTheSeed(t *testing.T) {
	t.Parallel()
	all := faultsOf(7, 300)
	if !reflect.DeepEqual(all, faultsOf(7, 300)) || reflect.DeepEqual(all, faultsOf(8, 300)) {
		t.Error("a seed does not choose the faults")
	}
	kinds := make(map[string]int)
	for _, f := range all {
		kinds[f.kind]++
		if f.lasts < shortest || f.lasts > longest || f.gap < shortestGap {
			t.Errorf("fault %+v", f)
		}
	}
	for _, kind := range []string{killProcess, freeze, killServer, cut, halfOpen} {
		if kinds[kind] < 30 {
			t.Errorf("%d of 300 faults are %s", kinds[kind], kind)
		}
	}
}

// TestDescendants finds a process below a shell.
func TestDescendants(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	text := make([]byte, 20)
	n, err := out.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	below, err := strconv.Atoi(string(text[:n-1]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p, err := os.FindProcess(below); err == nil {
			_ = p.Kill()
		}
	}()
	all, err := descendants(cmd.Process.Pid)
	if err != nil || !reflect.DeepEqual(all, []int{cmd.Process.Pid, below}) {
		t.Errorf("descendants of %d: %v, %v, want %d", cmd.Process.Pid, all, err, below)
	}
}
