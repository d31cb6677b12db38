package crash

import (
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

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/rabbitd"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/internal/kafkanode"
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
	if kind == KFake {
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

// kafkaStart is how long Kafka may take to listen. After a kill it waits for the end of its
// old session first.
const kafkaStart = 2 * time.Minute

// kafkaServer is an Apache Kafka of one node.
type kafkaServer struct{ *kafkanode.Cluster }

func (s kafkaServer) PID() int { return s.Nodes()[0].PID() }

func (s kafkaServer) Kill() error {
	s.Cluster.Kill()
	return nil
}

// runningBroker is a broker that runs already, and goes on.
type runningBroker struct{}

func (runningBroker) PID() int    { return 0 }
func (runningBroker) Kill() error { return nil }

// UseKafka prepares a Kafka that runs already: it deletes the topics and the groups of the
// service, so that a run begins on an empty broker.
func UseKafka(ctx context.Context, url string) (Server, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(url, ",")...))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, kafkaStart)
	defer cancel()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the topics of %s: %w", url, err)
	}
	var ours []string
	for _, topic := range topics.Names() {
		if topic == history.CommandsTopic || kafkaTopics.MatchString(topic) {
			ours = append(ours, topic)
		}
	}
	if len(ours) > 0 {
		deleted, err := admin.DeleteTopics(ctx, ours...)
		if err = errors.Join(err, deleted.Error()); err != nil {
			return nil, fmt.Errorf("delete the topics of the service: %w", err)
		}
	}
	for _, group := range []string{kafkaGroup, kafkaGroup + ".owner"} {
		if err := pause.Until(ctx, func() (bool, error) {
			_, err := admin.DeleteGroup(ctx, group)
			if errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.NonEmptyGroup) {
				return false, nil // a new cluster has none until it is asked for, and a killed service is a member for a while
			}
			if errors.Is(err, kerr.GroupIDNotFound) {
				err = nil
			}
			return true, err
		}); err != nil {
			return nil, fmt.Errorf("delete group %s: %w", group, err)
		}
	}
	return runningBroker{}, nil
}

// StartServer starts a broker on a port of the loopback interface, which keeps its data in
// dir: where it was, if it was there before.
func StartServer(ctx context.Context, kind Kind, dir string, port int) (Server, error) {
	switch kind {
	case RabbitMQ:
		s, err := rabbitd.Start(ctx, dir, port)
		return rabbitServer{s}, err
	case Kafka:
		c, err := kafkanode.Start(ctx, filepath.Join(dir, brokerData), kafkanode.Options{Port: port})
		return kafkaServer{c}, err
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
	p, err := StartCommand(cmd, io.Discard)
	if err != nil {
		return nil, err
	}
	if err := p.Await(ctx, brokerStart); err != nil {
		return nil, errors.Join(fmt.Errorf("start the broker: %w", err), p.Kill())
	}
	return p, nil
}

// URL is that of a broker of [StartServer], which the service connects with.
func (k Kind) URL(port int) string { return kinds[k].scheme + freeport.Address(port) }

// rabbitServer is a RabbitMQ of the test's own.
type rabbitServer struct{ *rabbitd.Server }

// Kill ends all processes of the server.
func (s rabbitServer) Kill() error {
	s.Server.Kill()
	return nil
}
