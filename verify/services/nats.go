package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/freeport"
	"github.com/event-service-agent/timer-service/internal/natsd"
	"github.com/event-service-agent/timer-service/internal/proxy"
	"github.com/event-service-agent/timer-service/verify/services/judge"
)

// natsSchedules are the message schedules of a NATS server: a schedule is the last message of
// its subject, and a publish to another subject with Nats-Schedule-Next purges it.
type natsSchedules struct{ js jetstream.JetStream }

// Subjects of the stream.
const (
	natsStream   = "timers"
	natsSchedule = "schedule."
	natsEvent    = "event."
	natsCanceled = "canceled."
)

func openNATS(ctx context.Context, w *world) (service, error) {
	server, at, err := w.startNATS(ctx)
	if err != nil {
		return nil, err
	}
	w.harm.processes = append(w.harm.processes, server.part())
	client, err := w.through("client to NATS", at)
	if err != nil {
		return nil, err
	}
	return w.openSchedules(ctx, "nats://"+client, 1)
}

// startNATS starts one server, which syncs each message before it acks it.
func (w *world) startNATS(ctx context.Context) (server *child, at string, err error) {
	program, err := natsd.Build(ctx, w.dir)
	if err != nil {
		return nil, "", err
	}
	port, err := freeport.Find(ctx)
	if err != nil {
		return nil, "", err
	}
	config := filepath.Join(w.dir, "nats.conf")
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, max_file_store: 1TB, sync_interval: always }\n", freeport.Address(port), filepath.Join(w.dir, "nats"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	server = &child{name: "NATS", path: program, args: []string{"--config", config}, dir: w.dir, logs: w.logs, ready: listens(port)}
	w.onClose(server.kill)
	return server, freeport.Address(port), server.start(ctx)
}

// openCluster starts three servers, each of which has all schedules. The next fault comes when
// each is up to date again, since they promise to survive the loss of one.
func openCluster(ctx context.Context, w *world) (service, error) {
	program, err := natsd.Build(ctx, w.dir)
	if err != nil {
		return nil, err
	}
	cluster, err := natsd.Start(ctx, program, w.dir, "always")
	if err != nil {
		return nil, err
	}
	w.onClose(cluster.Close)
	client := connection{name: "client to NATS"}
	var urls []string
	for i, url := range cluster.URLs() {
		p := proxy.New(proxy.TCP(strings.TrimPrefix(url, "nats://")))
		at, err := p.Listen()
		if err != nil {
			return nil, err
		}
		w.onClose(p.Close)
		client.proxies = append(client.proxies, p)
		urls = append(urls, "nats://"+at)
		w.harm.processes = append(w.harm.processes, part{
			natsd.Name(i), func(context.Context) error { return cluster.Begin(i) },
			func() error { return cluster.Kill(i) }, func() int { return cluster.PID(i) },
		})
	}
	w.harm.connections = []connection{client}
	w.harm.whole = func() bool { return cluster.IsHealthy(ctx) }
	return w.openSchedules(ctx, strings.Join(urls, ","), natsd.Size)
}

func (w *world) openSchedules(ctx context.Context, url string, replicas int) (service, error) {
	js, err := w.connectNATS(url)
	if err != nil {
		return nil, err
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: natsStream, Subjects: []string{natsSchedule + ">", natsEvent + ">", natsCanceled + ">"}, Replicas: replicas,
		Storage: jetstream.FileStorage, AllowMsgSchedules: true, AllowMsgTTL: true,
	}); err != nil {
		return nil, fmt.Errorf("make the stream: %w", err)
	}
	took := func(rec *recorder, m jetstream.Msg, seq uint64) error {
		op, err := strconv.Atoi(string(m.Data()))
		if err == nil {
			rec.noteSeen(strings.TrimPrefix(m.Subject(), natsEvent), op, strconv.FormatUint(seq, 10))
		}
		return err
	}
	return &natsSchedules{js}, consumeNATS(ctx, w, js, natsStream, []string{natsEvent + ">"}, replicas, took)
}

// connectNATS connects for good: a half-open connection is found by pings.
func (w *world) connectNATS(url string) (jetstream.JetStream, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.RetryOnFailedConnect(true),
		nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2), nats.IgnoreDiscoveredServers(), nats.Timeout(2*time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // that connections end is meant
	if err != nil {
		return nil, err
	}
	w.onClose(func() error { nc.Close(); return nil })
	return jetstream.New(nc)
}

// consumeNATS acks each message after it was taken, by a durable consumer.
func consumeNATS(ctx context.Context, w *world, js jetstream.JetStream, stream string, subjects []string, replicas int, took func(*recorder, jetstream.Msg, uint64) error) error {
	consumer, err := js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: "judge", FilterSubjects: subjects, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 10 * time.Second,
		MaxAckPending: 10_000, Replicas: replicas,
	})
	if err != nil {
		return fmt.Errorf("make the consumer: %w", err)
	}
	taking, err := consumer.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err == nil {
			err = took(w.rec, m, meta.Sequence.Stream)
		}
		if err == nil {
			err = m.Ack()
		}
		if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			w.rec.fail(fmt.Errorf("take message %q on %s: %w", m.Data(), m.Subject(), err))
		}
	}, jetstream.PullExpiry(5*time.Second), jetstream.PullHeartbeat(time.Second))
	if err != nil {
		return fmt.Errorf("consume the events: %w", err)
	}
	w.onClose(func() error { taking.Stop(); return nil })
	return nil
}

func (s *natsSchedules) do(ctx context.Context, c command) (answer, error) {
	m := nats.NewMsg(natsSchedule + c.key)
	if c.do == judge.Cancel {
		m.Subject = natsCanceled + c.key
		m.Header.Set("Nats-Schedule-Next", "purge")
		m.Header.Set("Nats-Scheduler", natsSchedule+c.key)
	} else {
		m.Data = []byte(strconv.Itoa(c.op))
		m.Header.Set("Nats-Schedule", "@at "+c.due.UTC().Format(time.RFC3339Nano))
		m.Header.Set("Nats-Schedule-Target", natsEvent+c.key)
	}
	_, err := s.js.PublishMsg(ctx, m, jetstream.WithMsgID(strconv.Itoa(c.op)), jetstream.WithRetryAttempts(0))
	return inForce, err
}
