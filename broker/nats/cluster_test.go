package nats_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

// A cluster is three servers in this process, with routes between them.
type cluster struct {
	testing.TB
	options [3]*server.Options
	servers [3]*server.Server
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{TB: t}
	var ports [3]int
	var routes []*url.URL
	for i := range ports {
		ports[i] = freePort(t)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[i])})
	}
	for i := range ports {
		c.options[i] = &server.Options{
			ServerName: fmt.Sprint("node-", i), Host: "127.0.0.1", Port: freePort(t), NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "timers", Host: "127.0.0.1", Port: ports[i]},
		}
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.stop(i)
		}
	})
	return c
}

func (c *cluster) start(i int) {
	opt := c.options[i].Clone()
	s, err := server.NewServer(opt)
	if err != nil {
		c.Fatal(err)
	}
	c.servers[i] = s
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		c.Fatal("no answer of the server")
	}
}

func (c *cluster) stop(i int) {
	c.servers[i].Shutdown()
	c.servers[i].WaitForShutdown()
}

// urls returns where the servers are.
func (c *cluster) urls() string {
	var all []string
	for _, opt := range c.options {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", opt.Port))
	}
	return strings.Join(all, ",")
}

// stream makes the stream and the consumer, on all three, as an administrator
// does, and returns a client.
func (c *cluster) stream() jetstream.JetStream {
	c.Helper()
	conn, err := natsgo.Connect(c.urls(), unhurried, natsgo.MaxReconnects(-1), natsgo.ReconnectWait(50*time.Millisecond))
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(conn.Close)
	js, err := jetstream.New(conn, answers)
	if err != nil {
		c.Fatal(err)
	}
	until(c, "a stream", func() bool { // there may be no leader yet, and then nobody answers
		ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
		defer cancel()
		_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: "svc", Subjects: []string{"svc.>", commands}, Replicas: 3, Discard: jetstream.DiscardNew, MaxBytes: 64 << 20,
		})
		return err == nil
	})
	until(c, "a consumer", func() bool {
		_, err = nats.New(nats.Options{URL: c.urls()}, quiet).Provision(c.Context(), false)
		return err == nil
	})
	return js
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

// Of a cluster it is enough to name one node: it names the others.
func TestNodesThatWereNotNamedAreTried(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	c := newCluster(t)
	c.stream()
	b := ready(t, nats.Options{URL: c.servers[0].ClientURL()})
	messages := subscribe(t, b, role, commands)
	c.stop(0)
	until(t, "a connection with another node", func() bool { return b.Ready(t.Context()) == nil })
	until(t, "a command that is stored", func() bool {
		return try(b, commands, message.NewMessage("id", []byte("after"))) == nil
	})
	expect(t, messages, "after")
}

// TestClusterThatLosesItsNodesLosesNothing stops one node after the other, each
// the leader of something once, while commands come in.
func TestClusterThatLosesItsNodesLosesNothing(t *testing.T) {
	longtest.Skip(t, "starts and stops the servers of a cluster")
	t.Parallel()
	c := newCluster(t)
	js := c.stream()
	opt := nats.Options{URL: c.urls(), Verify: true}
	b, producer := ready(t, opt), ready(t, opt)
	messages := subscribe(t, b, role, commands)

	const n = 600
	var producing sync.WaitGroup
	producing.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; i < n; <-tick.C {
			m := message.NewMessage(fmt.Sprint(i), fmt.Append(nil, i))
			if try(producer, commands, m) == nil {
				i++ // else again, with the same id
			}
		}
	})
	defer producing.Wait()
	seen := make(map[string]bool)
	take := func(until int) {
		t.Helper()
		for len(seen) < until {
			select {
			case msg := <-messages:
				seen[string(msg.Payload)] = true
				msg.Ack()
			case <-time.After(90 * time.Second):
				t.Fatalf("%d of %d came", len(seen), n)
			}
		}
	}
	for i := range c.servers {
		take((i*2 + 1) * n / 7)
		c.stop(i)
		take((i*2 + 2) * n / 7)
		c.start(i)
		c.healed(js)
	}
	take(n)
	for i := range n {
		if !seen[fmt.Sprint(i)] {
			t.Errorf("message %d was lost", i)
		}
	}
	until(t, "a broker that is ready", func() bool { return b.Ready(t.Context()) == nil })
}

// TestReplayFromAClusterThatLosesItsNodes stops the server that leads the stream, as soon
// as a batch has come.
func TestReplayFromAClusterThatLosesItsNodes(t *testing.T) {
	longtest.Skip(t, "starts and stops the servers of a cluster")
	t.Parallel()
	c := newCluster(t)
	js := c.stream()
	b := ready(t, nats.Options{URL: c.urls(), Verify: true})
	const n = 10_000
	for range n / 1000 {
		if err := try(b, topic, events(1000)...); err != nil {
			t.Fatal(err)
		}
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
			for i, opt := range c.options {
				if opt.ServerName == stream.CachedInfo().Cluster.Leader {
					stopped = i
				}
			}
			c.stop(stopped)
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
