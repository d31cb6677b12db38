package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/timer"
)

// Drain schedules timers through the broker that are all due at one instant,
// after the last was accepted, and measures how long each half takes. An error
// that begins with "void" says that the figures mean nothing.
func Drain(ctx context.Context, opt Options) (r Result, err error) {
	opt = opt.withDefaults()
	s, err := open(ctx, opt)
	defer func() { err = errors.Join(err, s.shut()) }()
	if err != nil {
		return r, err
	}
	commands, messages := make([]timer.ScheduleTimer, opt.Timers), make([]*message.Message, opt.Timers)
	due := timer.RoundUp(time.Now().Add(opt.Lead + time.Duration(opt.Timers)*10*time.Microsecond)) // making them takes a while
	for n := range commands {
		commands[n] = opt.command(n, time.Now(), due)
		messages[n] = encode(commands[n])
	}
	k := newSink(opt.Timers)
	if err := k.listen(ctx, s); err != nil {
		return r, err
	}
	before, err := s.usages()
	if err != nil {
		return r, err
	}

	began := time.Now()
	if err := s.publish(ctx, messages); err != nil {
		return r, err
	}
	published := time.Now()
	accepted, err := s.accepted(ctx, opt.Timers)
	if err != nil {
		return r, err
	}
	if !accepted.Before(due) {
		return r, fmt.Errorf("void: the last command was accepted %v after the due time; give it a longer --lead", accepted.Sub(due).Round(time.Millisecond))
	}
	between, err := s.usages()
	if err != nil {
		return r, err
	}
	if err := k.await(ctx, s, 10*time.Second); err != nil {
		return r, err
	}
	if _, err := s.rest(ctx); err != nil {
		return r, err
	}
	after, err := s.usages()
	if err != nil {
		return r, err
	}
	lateness, err := k.judge(commands, due)
	r = Result{
		Workload: "drain", Broker: opt.Broker, Timers: opt.Timers, Pending: opt.Pending, Setup: opt.setup(),
		Published: rate(opt.Timers, published.Sub(began)),
		Accepted:  rate(opt.Timers, accepted.Sub(began)),
		Delivered: rate(opt.Timers, k.last().Sub(due)),
		IntakeCPU: between.since(before, opt.Timers),
		FiringCPU: after.since(between, opt.Timers),
		PeakMiB:   after.service.peakMiB, StartMS: milliseconds(s.ready),
	}
	r.late(lateness)
	return r, err
}

// usages are what each of the three processes has used.
type usages struct{ service, broker, client usage }

func (s *system) usages() (u usages, err error) {
	if u.service, err = used(s.cmd.Process.Pid); err != nil {
		return u, err
	}
	if s.broker != nil {
		if u.broker, err = used(s.broker.PID()); err != nil {
			return u, err
		}
	}
	u.client, err = used(os.Getpid())
	return u, err
}

// since returns the CPU time for each of n timers since an earlier look.
func (u usages) since(earlier usages, n int) *CPU {
	return &CPU{
		Service: each(n, u.service.cpu-earlier.service.cpu),
		Broker:  each(n, u.broker.cpu-earlier.broker.cpu),
		Client:  each(n, u.client.cpu-earlier.client.cpu),
	}
}

// restLimit is the longest wait for the service to come to rest. Its housekeeping
// may go on, such as looking for timers to forget among millions.
const restLimit = 2 * time.Second

// rest waits until the service has nothing left to do, and returns what it has
// used: the last events are deleted from its outbox after they came.
func (s *system) rest(ctx context.Context) (usage, error) {
	for idle, began := 0, time.Now(); ; {
		before, err := used(s.cmd.Process.Pid)
		if err != nil {
			return usage{}, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return usage{}, ctx.Err()
		}
		after, err := used(s.cmd.Process.Pid)
		if err != nil {
			return usage{}, err
		}
		if idle++; after.cpu > before.cpu {
			idle = 0
		}
		if idle == 3 || time.Since(began) > restLimit {
			return after, nil
		}
	}
}

// rate returns how many a second.
func rate(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

// each returns microseconds for one of n.
func each(n int, d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
