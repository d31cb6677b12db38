package nats_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/internal/natsd"
)

// A cluster is three servers as processes, with routes between them.
type cluster struct {
	testing.TB
	*natsd.Cluster
}

// natsServer builds the program of a server, once for all tests.
var natsServer = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nats-server-")
	if err != nil {
		return "", err
	}
	atEnd = append(atEnd, func() { _ = os.RemoveAll(dir) })
	return natsd.Build(context.Background(), dir)
})

func newCluster(t testing.TB) *cluster {
	t.Helper()
	program, err := natsServer()
	must(t, err)
	c, err := natsd.Start(t.Context(), program, t.TempDir(), "")
	must(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &cluster{t, c}
}

// start starts a server that was killed.
func (c *cluster) start(i int) {
	c.Helper()
	must(c, c.Begin(i))
	must(c, c.Await(c.Context()))
}

// kill kills a server.
func (c *cluster) kill(i int) {
	c.Helper()
	must(c, c.Kill(i))
}

// stream makes the stream and the consumer, on all three, as an administrator
// does, and returns a client.
func (c *cluster) stream() jetstream.JetStream {
	c.Helper()
	_, js := dial(c, c.URL(), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(50*time.Millisecond))
	until(c, "a stream", func() bool { // there may be no leader yet, and then nobody answers
		ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
		defer cancel()
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: "svc", Subjects: []string{"svc.>", commands}, Replicas: 3, Discard: jetstream.DiscardNew, MaxBytes: 64 << 20,
		})
		return err == nil
	})
	until(c, "a consumer", func() bool {
		_, err := nats.New(nats.Options{URL: c.URL()}, quiet).Provision(c.Context(), false)
		return err == nil
	})
	leads(c, js, "svc")
	return js
}

// leads waits until an empty stream has a leader, which answers.
func leads(t testing.TB, js jetstream.JetStream, stream string) {
	t.Helper()
	until(t, "an answer of the stream", func() bool {
		_, err := js.Publish(t.Context(), stream+".probe", nil, jetstream.WithExpectLastSequence(1))
		api, is := errors.AsType[*jetstream.APIError](err)
		return is && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
	})
}

// healed waits until all replicas of the stream and its consumer are current.
func (c *cluster) healed(js jetstream.JetStream) {
	c.Helper()
	current := func(info *jetstream.ClusterInfo) bool {
		if info == nil || info.Leader == "" || len(info.Replicas) != 2 {
			return false
		}
		for _, r := range info.Replicas {
			if !r.Current || r.Offline {
				return false
			}
		}
		return true
	}
	until(c, "replicas that are current", func() bool {
		stream, err := js.Stream(c.Context(), "svc")
		if err != nil || !current(stream.CachedInfo().Cluster) {
			return false
		}
		consumer, err := stream.Consumer(c.Context(), durable)
		return err == nil && current(consumer.CachedInfo().Cluster)
	})
}

// TestContractOnACluster has three replicas of each stream.
func TestContractOnACluster(t *testing.T) {
	longtest.Skip(t, "starts the servers of a cluster")
	t.Parallel()
	c := newCluster(t)
	f := features
	f.FakeTime = false
	brokertest.Run(t, f, func(t testing.TB) brokertest.Server { return openReplicated(t, c) })
}

// openReplicated makes streams as an administrator does, before the broker starts, and waits
// until a message that comes in by any server reaches the leader of its stream.
func openReplicated(t testing.TB, c *cluster) brokertest.Server {
	t.Helper()
	opt := ownNames(c.URL())
	for i, url := range c.URLs() {
		_, js := dial(t, url)
		if i == 0 {
			makeStream(t, js, jetstream.StreamConfig{
				Name: opt.Stream, Subjects: []string{opt.Stream + ".>"}, Replicas: natsd.Size, Discard: jetstream.DiscardNew, MaxBytes: opt.MaxBytes,
			})
		}
		leads(t, js, opt.Stream)
	}
	if _, err := nats.New(opt, quiet).Provision(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	return openAt(t, opt)
}

// Of a cluster it is enough to name one node: it names the others.
func TestNodesThatWereNotNamedAreTried(t *testing.T) {
	longtest.Skip(t, "starts and stops the servers of a cluster")
	t.Parallel()
	c := newCluster(t)
	c.stream()
	b := ready(t, nats.Options{URL: c.URLs()[0]})
	messages := subscribe(t, b, role, commands)
	c.kill(0)
	awaitReady(t, b)
	until(t, "a command that is stored", func() bool {
		return try(b, commands, message.NewMessage("id", []byte("after"))) == nil
	})
	expect(t, messages, "after")
}

// TestReplayFromAClusterThatLosesItsNodes stops the server that leads the stream, as soon
// as a batch has come.
func TestReplayFromAClusterThatLosesItsNodes(t *testing.T) {
	longtest.Skip(t, "starts and stops the servers of a cluster")
	t.Parallel()
	c := newCluster(t)
	js := c.stream()
	b := ready(t, nats.Options{URL: c.URL(), Verify: true})
	const n = 10_000
	for range n / 1000 {
		must(t, try(b, topic, events(1000)...))
	}
	c.healed(js)
	visited := make(map[int64]bool)
	stopped := -1
	err := brokertest.Read(t.Context(), b, role, broker.Events, nil, func(batch []broker.Stored) error {
		for _, m := range batch {
			visited[m.Number] = true
		}
		if stopped < 0 {
			stream, err := js.Stream(t.Context(), "svc")
			if err != nil {
				return err
			}
			for i := range natsd.Size {
				if natsd.Name(i) == stream.CachedInfo().Cluster.Leader {
					stopped = i
				}
			}
			c.kill(stopped)
		}
		return nil
	})
	if stopped >= 0 {
		c.start(stopped)
	}
	if err != nil || len(visited) != n {
		t.Errorf("visited %d of %d, %v", len(visited), n, err)
	}
}
