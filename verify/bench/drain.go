package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	commands := make([]timer.ScheduleTimer, opt.Timers)
	due := timer.RoundUp(time.Now().Add(opt.Lead + time.Duration(opt.Timers)*10*time.Microsecond)) // making them takes a while
	for n := range commands {
		commands[n] = command(opt.tenant(n), time.Now(), due)
	}
	messages := opt.encodeAll(commands)
	k := newSink(opt.Timers)
	if err := k.listen(ctx, s); err != nil {
		return r, err
	}
	before, err := s.usages()
	if err != nil {
		return r, err
	}

	waiting, err := s.known(ctx)
	if err != nil {
		return r, err
	}

	began := time.Now()
	if err := s.publish(ctx, messages); err != nil {
		return r, err
	}
	accepted, err := s.accepted(ctx, waiting, opt.Timers)
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
	if err := k.await(ctx, s, time.Until(due)+10*time.Second); err != nil {
		return r, err
	}
	after, err := s.rest(ctx)
	if err != nil {
		return r, err
	}
	lateness, err := k.judge(commands, from(due))
	r = s.result("drain", after)
	r.Timers = opt.Timers
	r.Accepted = rate(opt.Timers, accepted.Sub(began))
	r.Delivered = rate(opt.Timers, k.last().Sub(due))
	r.IntakeCPU = between.since(before, opt.Timers)
	r.FiringCPU = after.since(between, opt.Timers)
	r.Lateness = lateness
	return r, err
}

// rate returns how many a second.
func rate(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

// each returns microseconds for one of n.
func each(n int, d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
