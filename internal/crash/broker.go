package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The environment by which a process is told to be the broker.
const (
	brokerDirEnv  = "CRASH_BROKER_DIR"
	brokerPortEnv = "CRASH_BROKER_PORT"
)

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
	opt := &server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, LogFile: filepath.Join(dir, "broker.log"),
		JetStream: true, StoreDir: filepath.Join(dir, "broker"), JetStreamMaxStore: 1 << 40,
	}
	s, err := server.NewServer(opt)
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

// A broker is a process that runs [ServeBroker].
type broker struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
}

// startBroker starts a broker that keeps its data in dir. Port 0 takes any.
func startBroker(ctx context.Context, dir string, port int) (*broker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program to run as broker: %w", err)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), brokerDirEnv+"="+dir, brokerPortEnv+"="+strconv.Itoa(port))
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
	b := &broker{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the broker: it said %q: %w", line, err), b.kill())
	}
	b.url = strings.TrimSpace(line)
	return b, nil
}

// port returns where the broker listens.
func (b *broker) port() (int, error) {
	return strconv.Atoi(b.url[strings.LastIndexByte(b.url, ':')+1:])
}

// stop ends the broker in its own time.
func (b *broker) stop() error {
	_ = b.stdin.Close() // an error means that it is gone, which Wait tells
	return b.cmd.Wait()
}

// kill ends the broker at once.
func (b *broker) kill() error {
	if err := b.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the broker: %w", err)
	}
	_ = b.cmd.Wait() // says that it was killed
	return nil
}
