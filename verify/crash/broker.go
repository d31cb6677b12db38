package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/event-service-agent/timer-service/internal/rabbitd"
)

// Environment variables that make a process a broker.
const (
	brokerKindEnv = "CRASH_BROKER"
	brokerDirEnv  = "CRASH_BROKER_DIR"
	brokerPortEnv = "CRASH_BROKER_PORT"
)

// brokerData is the directory in which a broker keeps its data, in that of the run.
const brokerData = "broker"

// brokerStart is how long a broker may take to listen.
const brokerStart = 30 * time.Second

// BrokerMain serves a broker if this process was started to be one, and does not return
// then. Each program that starts brokers calls it first: so one binary is two processes, of
// which each can be killed.
func BrokerMain() {
	kind := Kind(os.Getenv(brokerKindEnv))
	if kind == "" {
		return
	}
	port, err := strconv.Atoi(os.Getenv(brokerPortEnv))
	if err == nil {
		err = serveBroker(kind, os.Getenv(brokerDirEnv), port)
	}
	if err == nil {
		fmt.Fprintln(os.Stdout, "ready")
		_, err = io.Copy(io.Discard, os.Stdin) // which ends with the process that started this one
	}
	fmt.Fprintln(os.Stderr, "the broker ends:", err)
	os.Exit(1) //nolint:forbidigo // main calls this
}

// serveBroker serves a broker on the loopback interface, in the background.
func serveBroker(kind Kind, dir string, port int) error {
	data := filepath.Join(dir, brokerData)
	if kind == Kafka {
		_, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(data), kfake.SyncWrites())
		return err
	}
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, LogFile: filepath.Join(dir, "broker.log"),
		JetStream: true, StoreDir: data, JetStreamMaxStore: 1 << 40,
	})
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	go s.Start()
	if !s.ReadyForConnections(brokerStart) {
		return errors.New("the broker does not listen")
	}
	return nil
}

// A Server is a broker in processes of its own.
type Server interface {
	PID() int
	Kill() error
}

// StartServer starts a broker on a port of the loopback interface, which keeps its data in
// dir: where it was, if it was there before.
func StartServer(ctx context.Context, kind Kind, dir string, port int) (Server, error) {
	if kind == RabbitMQ {
		s, err := rabbitd.Start(ctx, dir, port)
		return rabbitServer{s}, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program to run as broker: %w", err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), brokerKindEnv+"="+string(kind), brokerDirEnv+"="+dir, brokerPortEnv+"="+strconv.Itoa(port))
	if _, err := cmd.StdinPipe(); err != nil { // open as long as this process lives
		return nil, err
	}
	p, err := StartCommand(cmd, io.Discard, func() time.Time { return time.Time{} })
	if err != nil {
		return nil, err
	}
	if err := p.Await(ctx, brokerStart); err != nil {
		return nil, errors.Join(fmt.Errorf("start the broker: %w", err), p.Kill())
	}
	return p, nil
}

// URL is that of a broker of [StartServer], which the service connects with.
func (k Kind) URL(port int) string { return kinds[k].scheme + address(port) }

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// rabbitServer is a RabbitMQ of the test's own.
type rabbitServer struct{ *rabbitd.Server }

// Kill ends all processes of the server.
func (s rabbitServer) Kill() error {
	s.Server.Kill()
	return nil
}
