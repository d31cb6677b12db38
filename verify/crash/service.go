package crash

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// A service is a program that is started again and again on the same data.
type service struct {
	bin  string
	dir  string   // its working directory
	env  []string // names the broker and the database
	step string   // where the next process is to die, and at which passage; empty for nowhere
	log  io.Writer
	now  func() time.Time
}

// A life is one process of the service, from start to end.
type life struct {
	*Process

	of     *instance
	number int           // of all processes of the run, from 1
	fell   chan struct{} // closed when the process says that it dies at its step
	last   tail          // of what it said; not to be read before Ended is closed
	noted  bool          // whether it is recorded when the process was up
	meant  bool          // whether the run ends it, and checks how it ended
}

// start starts a process. It ends with ctx at the latest.
func (s *service) start(ctx context.Context) (*life, error) {
	l := &life{fell: make(chan struct{})}
	settings := append([]string{"TIMER_UNKNOWN_TYPES=ignore"}, s.env...)
	stderr := io.MultiWriter(s.log, &l.last)
	if s.step != "" {
		settings = append(settings, stepEnv+"="+s.step)
		name, _, _ := strings.Cut(s.step, ":")
		stderr = &watcher{out: s.log, line: stepLine + name, found: func() { close(l.fell) }}
	}
	process, err := Start(ctx, s.bin, s.dir, settings, s.log, stderr, s.now)
	if err != nil {
		return nil, err
	}
	l.Process = process
	return l, nil
}

// backup has the binary copy the database into a file.
func (s *service) backup(ctx context.Context, file string) error {
	cmd := exec.CommandContext(ctx, s.bin, "backup", file)
	cmd.Dir = s.dir
	cmd.Env = append(Environ(), s.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("timer-service backup: %w\n%s", err, out)
	}
	return nil
}

// The environment variable that names the step, and what the process prints when it dies there.
const (
	stepEnv  = "FAILPOINT"
	stepLine = "failpoint "
)

// hasFallen reports whether the process said that it dies at its step.
func (l *life) hasFallen() bool { return isClosed(l.fell) }
