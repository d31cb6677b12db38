//go:build linux

package power

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// TestMain makes the test binary the broker and the writer, too.
func TestMain(m *testing.M) {
	WriterMain()
	harness.Main(m)
}

// needPower skips the test where no power can be cut. Where only a program is
// missing, and $TIMER_TEST_REQUIRE is set, it fails it.
func needPower(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("cuts the power for half a minute: not with -short")
	}
	switch mendable, err := Missing(); {
	case err != nil && mendable:
		harness.Missing(t, "%v", err)
	case err != nil:
		t.Skipf("SKIPPED, NOTHING IS PROVEN: %v", err)
	}
}

// TestControls proves that the cuts spare only synced data.
// Without it the tests below prove nothing.
func TestControls(t *testing.T) {
	needPower(t)
	t.Parallel()
	r, err := Control(t.Context(), Options{Cuts: 3, Seed: 1, Dir: t.TempDir()})
	harness.Must(t, err)
	t.Logf("%+v", r)
	if err := r.Void(); err != nil {
		t.Error(err)
	}
}

// TestServiceOutlivesPowerCuts is the real thing, in short: the service as it
// ships, three cuts. The command timer-power does more of it.
func TestServiceOutlivesPowerCuts(t *testing.T) {
	needPower(t)
	t.Parallel()
	bin := harness.Binary(t)
	cases := []Options{{Mode: crash.Power}, {Mode: crash.Power, Relaxed: true}, {Mode: crash.PowerEmbedded}}
	reports, errs := make([]crash.Report, len(cases)), make([]error, len(cases))
	var runs sync.WaitGroup // all at once: they wait most of the time, and subtests wait for a processor
	for i, opt := range cases {
		opt.Bin, opt.Cuts, opt.Seed, opt.Dir, opt.Progress = bin, 3, 1, t.ArtifactDir(), t.Output()
		runs.Go(func() { reports[i], errs[i] = Run(t.Context(), opt) })
	}
	runs.Wait()
	for i, r := range reports {
		t.Run(fmt.Sprintf("%s, relaxed %t", cases[i].Mode, cases[i].Relaxed), func(t *testing.T) {
			var text bytes.Buffer
			r.Write(&text)
			t.Log(text.String())
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			if n := r.Violations(); n > 0 {
				t.Errorf("%d violations, see above", n)
			}
			if err := Void(r); err != nil {
				t.Error(err)
			}
			if r.Kills != 3 || r.Lives != 4 || r.Acked != r.Sent {
				t.Errorf("%d cuts, %d lives, %d of %d messages acked by the broker", r.Kills, r.Lives, r.Acked, r.Sent)
			}
		})
	}
}

// A disk that stays mounted, or a loop device that stays attached, is left for
// another test to find.
func TestDiskIsTakenOutWhateverHappens(t *testing.T) {
	needPower(t)
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	bin := filepath.Join(dir, "service")
	script := "#!/bin/sh\nexec 3>\"$TIMER_DB_PATH\"\nexec sleep 600\n"
	harness.Must(t, os.WriteFile(bin, []byte(script), 0o700))
	time.AfterFunc(time.Second, cancel)
	r, err := Run(ctx, Options{Bin: bin, Mode: crash.Power, Cuts: 1, Dir: dir})
	if err == nil || r.Error == "" {
		t.Errorf("error %v of a run that was canceled, in the report %q", err, r.Error)
	}
	var text bytes.Buffer
	r.Write(&text)
	if !strings.Contains(text.String(), "did not come to its end") {
		t.Errorf("the report does not say that it proves nothing:\n%s", &text)
	}
	mounts, err := os.ReadFile("/proc/mounts")
	harness.Must(t, err)
	if strings.Contains(string(mounts), dir) {
		t.Errorf("something is still mounted below %s:\n%s", dir, mounts)
	}
	backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	harness.Must(t, err)
	for _, name := range backing {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), dir) {
			t.Errorf("%s is still attached: %s", name, text)
		}
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "disk.img")); err != nil {
		t.Errorf("the disk was not kept: %v", err)
	}
}

// Half of what a program wrote may be on the disk, and half not. Without that
// a cut would be milder than a loss of power.
func TestLeaksPiecesOfWhatWasNotSynced(t *testing.T) {
	needPower(t)
	t.Parallel()
	d, err := newDisk(t.Context(), t.TempDir())
	harness.Must(t, err)
	defer func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}()
	const files, pages = 40, 50
	name := func(i int) string { return filepath.Join(d.dir, fmt.Sprintf("file-%d", i)) }
	for i := range files {
		harness.Must(t, os.WriteFile(name(i), bytes.Repeat([]byte{1}, pages*pageBytes), 0o600))
	}
	const seed = 1
	t.Logf("seed %d", seed)
	harness.Must(t, d.leak(rand.New(rand.NewPCG(seed, 0))))
	harness.Must(t, d.commitJournal())
	harness.Must(t, d.cut())
	harness.Must(t, d.restore(t.Context()))
	var whole, torn, gone int
	for i := range files {
		text, err := os.ReadFile(name(i))
		switch kept := bytes.Count(text, []byte{1}); {
		case err != nil:
			t.Error(err) // the journal has its name
		case kept == 0:
			gone++
		case kept == pages*pageBytes:
			whole++
		default:
			torn++
		}
	}
	if torn == 0 || gone == 0 || whole == files {
		t.Errorf("of %d files %d are whole, %d are torn and %d are gone, want some torn and some gone", files, whole, torn, gone)
	}
	t.Logf("of %d files %d are whole, %d are torn and %d are gone", files, whole, torn, gone)
}
