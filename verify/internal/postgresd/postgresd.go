// Package postgresd runs a PostgreSQL server of a test's own: one that it may
// stop, kill and start again without harm to others. PostgreSQL must be
// installed.
package postgresd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
)

// ErrNotInstalled says that there is no PostgreSQL on this machine.
var ErrNotInstalled = errors.New("PostgreSQL is not installed")

// startTimeout is how long a server may take until it accepts clients. After a
// kill it reads its log first.
const startTimeout = 2 * time.Minute

// A Server is a PostgreSQL server on the loopback interface. Its superuser is
// postgres, who needs no password.
type Server struct {
	dir   string
	port  int
	cmd   *exec.Cmd
	ended chan struct{} // closed when the server and all its children have ended
	stop  sync.Once
}

// Start starts a server on a port of the loopback interface, which keeps its data and
// its log in dir, and waits until it accepts clients. One that ended starts again where
// it was.
//
// If this is root, the server runs as another user, who must be able to get to
// dir. Directories on the way that are those of tests, below that of the system
// for temporary files, are made passable.
func Start(ctx context.Context, dir string, port int) (*Server, error) {
	return start(ctx, dir, port)
}

// start is [Start] with more arguments of the server.
func start(ctx context.Context, dir string, port int, more ...string) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	who, err := owner()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: filepath.Join(dir, "postgres"), port: port, ended: make(chan struct{})}
	if err := who.mkdir(s.dir); err != nil {
		return nil, fmt.Errorf("make the directory of PostgreSQL: %w", err)
	}
	if _, err := os.Stat(filepath.Join(s.data(), "PG_VERSION")); err != nil {
		if err := s.init(ctx, bin, who); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(s.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the log of PostgreSQL: %w", err)
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), append(s.arguments(), more...)...) //nolint:noctx // it outlives the start
	s.cmd.Dir, s.cmd.Env, s.cmd.SysProcAttr = s.dir, environ(), attributes(who)
	// Not the file itself, but a pipe: it is at its end when the last child is.
	out := struct{ io.Writer }{log}
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.begin(log); err != nil {
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// init makes the data of a new server.
func (s *Server) init(ctx context.Context, bin string, who user) error {
	if err := os.RemoveAll(s.data()); err != nil { // of an init that came to no end
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata", s.data(), "--username", "postgres",
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.dir, environ(), &syscall.SysProcAttr{Credential: who.credential}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a PostgreSQL database in %s: %w\n%s", s.dir, err, out)
	}
	return nil
}

// arguments are those of the server. It must not take any of what others on
// this machine may have.
func (s *Server) arguments() []string {
	return []string{
		"-D", s.data(), "-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(s.port),
		"-c", "unix_socket_directories=", "-c", "logging_collector=off", "-c", "log_destination=stderr",
	}
}

// begin starts the process, and starts a goroutine that waits for its end. Where a process
// can be made to end with its parent, the parent is a thread: this one stays.
func (s *Server) begin(log io.Closer) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := s.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = s.cmd.Wait() // says that it was killed
		close(s.ended)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

// await waits until the server accepts clients.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !s.ready() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("start PostgreSQL: it accepts no clients: %w", ctx.Err())
		case <-s.ended:
			text, _ := os.ReadFile(s.LogPath()) // it may be empty
			return fmt.Errorf("start PostgreSQL: it ended:\n%s", text[max(0, len(text)-4096):])
		case <-tick.C:
		}
	}
	return nil
}

// ready reports whether the server says so, in the file where it says who it is.
func (s *Server) ready() bool {
	const pid, status = 0, 7
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	line := strings.Split(string(text), "\n")
	if len(line) <= status || line[pid] != strconv.Itoa(s.PID()) {
		return false
	}
	says := strings.TrimSpace(line[status])
	return says == "ready" || says == "standby"
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// LogPath is the file that the server logs to.
func (s *Server) LogPath() string { return filepath.Join(s.dir, "log") }

// Address is where the server listens: host and port.
func (s *Server) Address() string { return freeport.Address(s.port) }

// URL is where clients connect as superuser, with the database postgres.
func (s *Server) URL() string {
	return "postgres://postgres@" + s.Address() + "/postgres?sslmode=disable"
}

// PID is the id of the process that all others of the server descend from.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop ends the server in its own time, and its clients' connections at once.
func (s *Server) Stop() {
	s.end(func() { _ = s.cmd.Process.Signal(syscall.SIGINT) }) // an error means that it has ended
}

// Kill ends the server at once. Its children notice that, and end.
func (s *Server) Kill() {
	s.end(func() { _ = s.cmd.Process.Kill() }) // an error means that it has ended
}

// end does what ends the server, and waits until all of it has ended. It does
// nothing if it has.
func (s *Server) end(how func()) {
	s.stop.Do(how)
	<-s.ended
}
