package services

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"testing"

	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
	"github.com/event-service-agent/timer-service/verify/services/judge"
)

func TestMain(m *testing.M) {
	WorkerMain()
	os.Exit(m.Run())
}

// TestServicesAreJudged kills, freezes and cuts off each service, and has both judges judge
// what came of it. Only this repository's service must break no rule.
func TestServicesAreJudged(t *testing.T) {
	longtest.NotShort(t)
	for _, c := range contestants {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "sqlite" {
				longtest.Skip(t, "starts servers of others")
			}
			r, err := Run(t.Context(), Options{Service: c.name, Faults: 3, Seed: 5, Rate: 50, Delay: 2, Out: t.TempDir(), Progress: io.Discard})
			if errors.Is(err, errNoTemporal) { // no package has it
				t.Skip("SKIPPED: ", err)
			}
			harness.Need(t, err, judge.ErrNoPython)
			v := r.Verdict
			if v.Void || c.ours && !v.Clean() || v.Faults != 3 || v.Events < 100 || c.can.Move && v.Commands <= v.Events-v.Repeated {
				t.Errorf("the history is judged as %+v", v)
			}
		})
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
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	text := make([]byte, 20)
	n, err := out.Read(text)
	harness.Must(t, err)
	below, err := strconv.Atoi(string(text[:n-1]))
	harness.Must(t, err)
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
