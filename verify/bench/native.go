package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/verify/crash"
)

// Native gives the scheduler of the NATS server the work of [Drain]: messages
// that the server itself publishes at a time (NATS ADR-51). It knows no
// versions, tenants or cancellations. The service is compared with it.
func Native(ctx context.Context, opt Options) (r Result, err error) {
	opt = opt.withDefaults()
	opt.Broker = crash.NATS
	dir, err := os.MkdirTemp("", "timer-bench-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, url, err := startBroker(ctx, crash.NATS, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Kill()) }()
	nc, err := nats.Connect(url)
	if err != nil {
		return r, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(publishBatch*publishers))
	if err != nil {
		return r, err
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "native", Subjects: []string{"schedule.>", "event.>"}, AllowMsgSchedules: true, AllowMsgTTL: true,
	}); err != nil {
		return r, fmt.Errorf("make the stream: %w", err)
	}

	k := newSink(opt.Timers)
	// Only consumers of the stream see messages that the server publishes by itself.
	events, err := js.CreateOrUpdateConsumer(ctx, "native", jetstream.ConsumerConfig{
		FilterSubject: "event.>", AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true,
	})
	if err != nil {
		return r, fmt.Errorf("make the consumer: %w", err)
	}
	taking, err := events.Consume(func(m jetstream.Msg) {
		k.take(m.Headers().Get("Nats-Scheduler"), arrival{at: time.Now()})
	}, jetstream.PullMaxMessages(opt.Timers))
	if err != nil {
		return r, fmt.Errorf("consume the events: %w", err)
	}
	defer taking.Stop()
	p := peer{sink: k, usages: func() (usages, error) { return usagesOf(b, nil) }}
	r, err = p.drain(ctx, opt, func(due time.Time) error {
		for n := range opt.Timers {
			c := command(opt.tenant(n), time.Now(), due)
			m := nats.NewMsg("schedule." + string(c.ServiceCallID))
			m.Data = encode(c).Payload
			m.Header.Set("Nats-Schedule", "@at "+due.UTC().Format(time.RFC3339Nano))
			m.Header.Set("Nats-Schedule-Target", "event."+string(c.TenantID))
			if _, err := js.PublishMsgAsync(m); err != nil {
				return err
			}
		}
		select {
		case <-js.PublishAsyncComplete():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	r.Workload, r.Setup = "native", "schedules of NATS itself; "+opt.setup()
	return r, err
}
