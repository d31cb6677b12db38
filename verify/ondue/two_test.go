package ondue

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// TestOneProcessAFile has a shop run on its file. A second process of the shop, and a service, by
// each path that leads to the file, are refused by the name of the first one, also after its lock
// file was removed. The first one handles each event once. With a service a shop is refused in
// the same way.
func TestOneProcessAFile(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the service and starts processes: not with -short")
	}
	t.Parallel()
	bin, err := crash.Build(t.Context(), t.TempDir())
	harness.Must(t, err)
	dir, others := t.TempDir(), t.TempDir()
	path, link, folder, second := filepath.Join(dir, "shop.db"), filepath.Join(others, "link.db"), filepath.Join(others, "folder"), filepath.Join(others, "second.db")
	harness.Must(t, os.Symlink(path, link))
	harness.Must(t, os.Symlink(dir, folder))

	first, orders := start(t, shopAt(path))
	harness.Must(t, line(orders, 1))
	says(t, first, entered+" 1")
	owner := fmt.Sprintf("pid %d on ", first.PID())
	for _, name := range []string{path, link, filepath.Join(folder, "shop.db")} {
		refused(t, shopAt(name), owner)
		refused(t, serviceAt(t, bin, name), owner)
	}
	harness.Must(t, os.Link(path, second))
	for _, name := range []string{path, second} {
		refused(t, shopAt(name), "has 2 names")
		refused(t, serviceAt(t, bin, name), "has 2 names")
	}
	harness.Must(t, os.Remove(second))

	harness.Must(t, os.Remove(path+".lock"))
	for n := range 20 {
		harness.Must(t, line(orders, n+2))
	}
	for n := range 20 {
		says(t, first, fmt.Sprint(booked, " ", n+2))
	}
	refused(t, shopAt(path), owner)
	refused(t, serviceAt(t, bin, path), owner)
	harness.Must(t, orders.Close())
	<-first.Ended
	harness.Must(t, first.Err)
	r := &run{T: t, path: path}
	r.compare()
	reminded := r.counts(`SELECT id, count(*) FROM reminders GROUP BY id`)
	for id, n := range reminded {
		if n != 1 {
			t.Errorf("the order %s was reminded of %d times", id, n)
		}
	}
	if len(reminded) != 21 {
		t.Errorf("%d orders were reminded of, want 21", len(reminded))
	}

	service, _ := start(t, serviceAt(t, bin, path))
	harness.Must(t, service.Await(t.Context(), time.Minute))
	refused(t, shopAt(path), fmt.Sprintf("pid %d on ", service.PID()))
}

func line(to io.Writer, n int) error {
	_, err := fmt.Fprintln(to, n)
	return err
}

// shopAt is the program on a file.
func shopAt(path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), databaseEnv+"="+path)
	return cmd
}

// serviceAt is the service on a file, with a broker of its own.
func serviceAt(t *testing.T, bin, path string) *exec.Cmd {
	cmd := exec.Command(bin, "serve")
	cmd.Dir = t.TempDir()
	cmd.Env = append(crash.Environ(), "TIMER_DB_PATH="+path, "TIMER_BROKER=gochannel", "TIMER_HTTP_ADDR=")
	return cmd
}

// start starts a process, which is killed at the end of the test, and returns its input.
func start(t *testing.T, cmd *exec.Cmd) (*crash.Process, io.WriteCloser) {
	t.Helper()
	input, err := cmd.StdinPipe()
	harness.Must(t, err)
	p, err := crash.StartCommand(cmd, io.Discard)
	harness.Must(t, err)
	t.Cleanup(func() { _ = p.Kill() }) // fails only if it has ended
	return p, input
}

// says waits for a line of a process.
func says(t *testing.T, p *crash.Process, text string) {
	t.Helper()
	harness.Until(t, text, time.Minute, func() bool {
		_, said := p.Find(text, time.Time{})
		if !said && p.HasEnded() {
			t.Fatalf("the process ended, and did not say %q: %v\n%s", text, p.Err, p.Last(10))
		}
		return said
	})
}

// refused starts a process, which must end by itself and say why.
func refused(t *testing.T, cmd *exec.Cmd, why string) {
	t.Helper()
	p, _ := start(t, cmd) // a shop ends with its input, which stays open
	select {
	case <-p.Ended:
	case <-p.Ready:
		t.Errorf("%v runs, want that it is refused: %s", cmd.Args, why)
		harness.Must(t, p.Kill())
		return
	case <-time.After(10 * time.Second):
		t.Errorf("%v goes on, want that it is refused: %s", cmd.Args, why)
		harness.Must(t, p.Kill())
		return
	}
	if _, said := p.Find(why, time.Time{}); !said || p.Err == nil {
		t.Errorf("%v: %v, want %q\n%s", cmd.Args, p.Err, why, p.Last(10))
	}
}
