package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/bench/database"
	"github.com/event-service-agent/timer-service/verify/crash"
	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// The phases of a run of [Chaos], beside the faults.
const (
	calm       = 5 * time.Second  // before the first fault, after the warm-up
	aftermath  = 15 * time.Second // after the last fault, in which timers are still scheduled
	quiet      = 5 * time.Second  // without an event, after which none is expected when all timers have fired
	quietLimit = 30 * time.Second // without an event, after which a timer that has not fired is lost
)

const (
	acceptTry   = time.Second           // longest wait for the broker's answer, which never comes if it dies
	acceptPause = 50 * time.Millisecond // between two tries
)

// Chaos injects a fault again and again for the duration, while timers are
// scheduled at the rate, on a PostgreSQL server and a NATS server of the run's
// own, and judges every timer.
func Chaos(ctx context.Context, opt Options, f Fault) (r ChaosResult, err error) {
	opt.Store, opt.Broker = database.Postgres, crash.NATS
	opt = opt.withDefaults()
	c := &chaos{}
	defer func() { err = errors.Join(err, c.shut()) }()
	if err := c.open(ctx, opt); err != nil {
		return r, err
	}
	return c.run(ctx, f)
}

// A chaos is a system whose servers can be hit.
type chaos struct {
	*system
	servers servers
	nats    jetstream.JetStream
	close   []func() error // in reverse, after the system

	mu       sync.Mutex
	accepted map[string]time.Time // when the broker's answer came, by the id of the command
}

// open starts the servers, and the system on them.
func (c *chaos) open(ctx context.Context, opt Options) error {
	c.system, c.accepted = newSystem(opt), make(map[string]time.Time)
	dir, err := os.MkdirTemp("", "timer-chaos-")
	if err != nil {
		return err
	}
	c.close = append(c.close, func() error { return os.RemoveAll(dir) })
	c.servers.dir = dir
	c.close = append(c.close, c.servers.stop)
	if err := c.servers.start(ctx); err != nil {
		return err
	}
	opt.DBURL, opt.BrokerURL = c.servers.databaseURL(), c.servers.brokerURL()
	if c.system, err = open(ctx, opt); err != nil {
		return err
	}
	nc, err := crash.Connect(c.servers.brokerPort, "timer-bench", "")
	if err != nil {
		return fmt.Errorf("connect with the broker: %w", err)
	}
	c.close = append(c.close, func() error { nc.Close(); return nil })
	c.nats, err = jetstream.New(nc)
	return err
}

// shut ends everything, the last first.
func (c *chaos) shut() error {
	err := c.system.shut()
	for i := len(c.close) - 1; i >= 0; i-- {
		err = errors.Join(err, c.close[i]())
	}
	return err
}

// run goes through the phases, and judges.
func (c *chaos) run(ctx context.Context, f Fault) (r ChaosResult, err error) {
	var events history.Recorder
	stop, err := c.observe(ctx, &events)
	if err != nil {
		return r, err
	}
	defer stop()
	producing, end := context.WithCancel(ctx)
	defer end()
	var commands []timer.ScheduleTimer
	produced := make(chan error, 1)
	go func() {
		var err error
		commands, err = c.keepBy(ctx, func(int) bool { return producing.Err() == nil }, c.publishUntilAccepted)
		produced <- err
	}()
	began := time.Now()
	times, err := c.inject(ctx, f)
	if err == nil {
		err = c.wait(ctx, aftermath)
	}
	end()
	if err := errors.Join(err, <-produced); err != nil {
		return r, err
	}
	all := c.scheduled(commands)
	h, err := c.settle(ctx, all, &events)
	if err != nil {
		return r, err
	}
	r, shots, err := judgeChaos(all, h)
	if err != nil {
		return r, err
	}
	r.Fault = f
	before := p99(shots, window{began.Add(warmUp + leadMax), times.first})
	r.P99 = p99(shots, window{times.first, times.last})
	limit := time.Duration(2 * before * float64(time.Millisecond))
	r.Clean, r.IsClean = clean(shots, times.over, limit)
	fmt.Fprintf(c.opt.Progress, "%s: %d faults, lateness p99 %.1f ms before the first\n", f, times.count, before)
	return r, nil
}

// observe records the events that the broker keeps, from now on.
func (c *chaos) observe(ctx context.Context, events *history.Recorder) (stop func(), err error) {
	stream, err := c.nats.Stream(ctx, c.config.NATSStream)
	if err != nil {
		return nil, fmt.Errorf("find the stream of the service: %w", err)
	}
	return crash.Observe(ctx, c.nats.Conn(), stream, events, time.Now)
}

// publishUntilAccepted publishes commands, under the same ids again and again,
// until the broker has accepted each, and notes when.
func (c *chaos) publishUntilAccepted(ctx context.Context, topic string, commands []*message.Message) error {
	left := make([]broker.Message, len(commands))
	for n, m := range commands {
		left[n] = broker.Message{Topic: topic, Message: m}
	}
	for {
		try, cancel := context.WithTimeout(ctx, acceptTry)
		results := c.client.Publisher().Publish(try, left...)
		cancel()
		now := time.Now()
		var again []broker.Message
		c.mu.Lock()
		for n, err := range results {
			if err == nil {
				c.accepted[left[n].UUID] = now
			} else {
				again = append(again, left[n])
			}
		}
		c.mu.Unlock()
		if left = again; len(left) == 0 {
			return nil
		}
		if err := broker.Join(results); errors.Is(err, broker.ErrRefused) {
			return fmt.Errorf("publish to %s: %w", topic, err)
		}
		if !pause.For(ctx, acceptPause) {
			return ctx.Err()
		}
	}
}

// scheduled returns the timers of commands, all of which were accepted.
func (c *chaos) scheduled(commands []timer.ScheduleTimer) []scheduled {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]scheduled, len(commands))
	for n, command := range commands {
		all[n] = scheduled{key: command.Key, due: timer.RoundUp(command.DueAt), accepted: c.accepted[command.CommandID]}
	}
	return all
}

// settle waits until all timers have fired and no event has come for a while, or
// until none has come for so long that the missing ones are lost.
func (c *chaos) settle(ctx context.Context, all []scheduled, events *history.Recorder) (history.History, error) {
	last, before := time.Now(), -1
	for {
		if err := c.wait(ctx, time.Second); err != nil {
			return history.History{}, err
		}
		if _, n := events.Count(); n != before {
			last, before = time.Now(), n
			continue
		}
		silence := time.Since(last)
		if silence < quiet {
			continue
		}
		h := events.History()
		if r, _, err := judgeChaos(all, h); err != nil || r.Lost == 0 || silence > quietLimit {
			return h, err
		}
	}
}

// wait waits for d. It returns an error if the service ends meanwhile, or ctx.
func (c *chaos) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.fell:
		return c.fall
	case <-ctx.Done():
		return ctx.Err()
	}
}
