// Package rabbitd runs a RabbitMQ server for one test, which may stop, kill and start it
// again without harm to other tests. RabbitMQ must be installed.
package rabbitd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrNotInstalled says that there is no RabbitMQ on this machine.
var ErrNotInstalled = errors.New("RabbitMQ is not installed")

// startTimeout is how long a server may take until it listens. Its virtual machine alone
// takes seconds, and longer on a busy machine.
const startTimeout = 2 * time.Minute

// places are where packages put the script that runs the server in the foreground, as the
// user who calls it. The script that Debian puts on the path changes the user.
var places = []string{"/usr/lib/rabbitmq/bin/rabbitmq-server", "/opt/rabbitmq/sbin/rabbitmq-server", "/usr/local/sbin/rabbitmq-server"}

// A Server is a RabbitMQ node on the loopback interface. Its user is guest,
// with the password guest.
type Server struct {
	dir    string
	port   int
	script string
	out    bytes.Buffer
	cmd    *exec.Cmd
	ended  chan struct{}
	stop   sync.Once
}

// Start starts a server that keeps its data in dir, and waits until it listens. With the
// folder of a server that has ended, it goes on with its data. It uses two ports: port for
// clients, and port + 1. Further lines of its configuration are as in rabbitmq.conf.
func Start(ctx context.Context, dir string, port int, settings ...string) (*Server, error) {
	s := &Server{dir: dir, port: port, ended: make(chan struct{})}
	for _, place := range places {
		if _, err := os.Stat(place); err == nil {
			s.script = place
			break
		}
	}
	if s.script == "" {
		return nil, fmt.Errorf("%w: none of %s", ErrNotInstalled, strings.Join(places, ", "))
	}
	config := filepath.Join(dir, "rabbitmq.conf")
	lines := append([]string{"listeners.tcp.1 = " + s.address()}, settings...)
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(s.script) //nolint:noctx // it outlives the start
	s.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir,
		"RABBITMQ_NODENAME=" + s.node(),
		"RABBITMQ_CONFIG_FILE=" + config,
		"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(dir, "none"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "plugins"),
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(port+1),
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "data"),
		"RABBITMQ_LOG_BASE=" + filepath.Join(dir, "log"),
		"RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"),
	}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the script is a parent of the server
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start RabbitMQ: %w", err)
	}
	go func() {
		_ = s.cmd.Wait() // its error says that the server was killed
		close(s.ended)
	}()
	if err := s.await(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// await waits until the server listens.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("start RabbitMQ: it does not listen: %w", ctx.Err())
		case <-s.ended:
			return fmt.Errorf("start RabbitMQ: it ended:\n%s", s.out.String())
		case <-tick.C:
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.address())
		if err == nil {
			return conn.Close()
		}
	}
}

// node is the name of the server in a cluster.
func (s *Server) node() string { return "timer-" + strconv.Itoa(s.port) + "@localhost" }

func (s *Server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the address that clients connect with.
func (s *Server) URL() string { return "amqp://guest:guest@" + s.address() + "/" }

// PID returns the id of the server's process, which is a child of the script. The server
// has written it into a file.
func (s *Server) PID() int {
	text, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	if err != nil {
		return s.cmd.Process.Pid
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return s.cmd.Process.Pid
	}
	return pid
}

// Stop has the server end in an orderly way.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server at once.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// end sends a signal to the script and the server, and waits until they have
// ended. It does nothing if they have.
func (s *Server) end(sig syscall.Signal) {
	s.stop.Do(func() { _ = syscall.Kill(-s.cmd.Process.Pid, sig) }) // an error means that they have ended
	<-s.ended
}
