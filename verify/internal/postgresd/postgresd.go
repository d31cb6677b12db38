// Package postgresd runs a PostgreSQL server of a test's own: one that it may
// stop, kill and start again without harm to others. PostgreSQL must be
// installed.
package postgresd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/verify/internal/server"
)

// ErrNotInstalled says that there is no PostgreSQL on this machine.
var ErrNotInstalled = errors.New("PostgreSQL is not installed")

// startTimeout is how long a server may take until it accepts clients. After a
// kill it reads its log first.
const startTimeout = 2 * time.Minute

// A Server is a PostgreSQL server on the loopback interface. Its superuser is
// postgres, who needs no password.
type Server struct {
	*server.Server

	dir  string
	port int
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
	s := &Server{dir: filepath.Join(dir, "postgres"), port: port}
	if err := who.mkdir(s.dir); err != nil {
		return nil, fmt.Errorf("make the directory of PostgreSQL: %w", err)
	}
	if _, err := os.Stat(filepath.Join(s.data(), "PG_VERSION")); err != nil {
		if err := s.init(ctx, bin, who); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), append(s.arguments(), more...)...) //nolint:noctx // it outlives the start
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.dir, environ(), &syscall.SysProcAttr{Credential: who.credential}
	if s.Server, err = server.Start(cmd, s.LogPath(), syscall.SIGQUIT); err != nil {
		return nil, err
	}
	if err := s.Await(ctx, startTimeout, func(context.Context) bool { return s.ready() }); err != nil {
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

// Stop ends the server in its own time, and its clients' connections at once.
func (s *Server) Stop() { s.End(syscall.SIGINT) }

// Kill ends the server at once. Its children notice that, and end.
func (s *Server) Kill() { s.End(syscall.SIGKILL) }
