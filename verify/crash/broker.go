package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Environment variables that make a process the broker.
const (
	brokerDirEnv  = "CRASH_BROKER_DIR"
	brokerPortEnv = "CRASH_BROKER_PORT"
)

// brokerData is the directory in which a broker keeps its data, in that of the run.
const brokerData = "broker"

// brokerStart is how long a broker may take to listen.
const brokerStart = 30 * time.Second

// IsBroker reports whether this process was started to be the broker. Then main
// must call [ServeBroker] and end. It makes one binary two processes, of which
// each can be killed.
func IsBroker() bool { return os.Getenv(brokerDirEnv) != "" }

// ServeBroker runs a NATS server with JetStream on the loopback interface until
// in ends, which it does when the process that started this one ends. To out it
// writes its address, once it listens.
func ServeBroker(in io.Reader, out io.Writer) error {
	dir := os.Getenv(brokerDirEnv)
	port, err := strconv.Atoi(os.Getenv(brokerPortEnv))
	if err != nil {
		return fmt.Errorf("%s: %w", brokerPortEnv, err)
	}
	opt := &natsserver.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, LogFile: filepath.Join(dir, "broker.log"),
		JetStream: true, StoreDir: filepath.Join(dir, brokerData), JetStreamMaxStore: 1 << 40,
	}
	s, err := natsserver.NewServer(opt)
	if err != nil {
		return fmt.Errorf("make the broker: %w", err)
	}
	s.ConfigureLogger()
	go s.Start() // returns after Shutdown at the latest, which is waited for below
	if !s.ReadyForConnections(brokerStart) {
		return errors.New("the broker does not listen")
	}
	fmt.Fprintln(out, s.ClientURL())
	_, err = io.Copy(io.Discard, in)
	s.Shutdown()
	s.WaitForShutdown()
	return err
}

// A BrokerProcess is a process that serves as broker, such as by [ServeBroker].
type BrokerProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	term  bool // whether it ends by SIGTERM, and not with its input
}

// StartBroker starts a NATS server on a port of the loopback interface, which keeps its
// data in dir. The binary of this process must be one that checks [IsBroker].
func StartBroker(ctx context.Context, dir string, port int) (*BrokerProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program to run as broker: %w", err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), brokerDirEnv+"="+dir, brokerPortEnv+"="+strconv.Itoa(port))
	return startProcess(cmd)
}

// startNATS starts a broker that serves this test alone.
func startNATS(ctx context.Context, dir string, port int) (server, error) {
	return StartBroker(ctx, dir, port)
}

// startProcess starts a broker that prints a line when it listens.
func startProcess(cmd *exec.Cmd) (*BrokerProcess, error) {
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = ownGroup()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	b := &BrokerProcess{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the broker: it printed %q: %w", line, err), b.kill())
	}
	return b, nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// PID is the id of the process.
func (b *BrokerProcess) PID() int { return b.cmd.Process.Pid }

// Stop ends the broker in its own time.
func (b *BrokerProcess) Stop() error {
	_ = b.stdin.Close() // an error means that it has ended, which Wait reports
	if b.term {
		_ = b.cmd.Process.Signal(syscall.SIGTERM)
	}
	return b.cmd.Wait()
}

// kill ends the broker at once.
func (b *BrokerProcess) kill() error {
	if err := b.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the broker: %w", err)
	}
	_ = b.cmd.Wait() // says that it was killed
	return nil
}
