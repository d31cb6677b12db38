package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	warmUp  = 2 * time.Second        // of a steady load, not counted
	leadMin = 500 * time.Millisecond // from a command to its due time
	leadMax = 2 * time.Second
	tick    = time.Millisecond // commands are published in groups, this far apart
)

// Steady schedules timers at a rate, each due up to two seconds later, and
// measures how late they fire. An error that begins with "void" says that the
// figures mean nothing.
func Steady(ctx context.Context, opt Options) (r Result, err error) {
	opt = opt.withDefaults()
	s, err := open(ctx, opt)
	defer func() { err = errors.Join(err, s.shut()) }()
	if err != nil {
		return r, err
	}
	total := opt.steadyTimers()
	k := newSink(total)
	if err := k.listen(ctx, s); err != nil {
		return r, err
	}
	before, err := s.usages()
	if err != nil {
		return r, err
	}
	began := time.Now()
	commands, err := s.keep(ctx, func(sent int) bool { return sent < total })
	if err != nil {
		return r, err
	}
	if took := time.Since(began); took > warmUp+opt.Duration+leadMin {
		return r, fmt.Errorf("void: the producer needed %v for what should have taken %v", took.Round(time.Millisecond), warmUp+opt.Duration)
	}
	if err := k.await(ctx, s, 10*time.Second); err != nil {
		return r, err
	}
	after, err := s.rest(ctx)
	if err != nil {
		return r, err
	}
	lateness, err := k.judge(commands, from(began.Add(warmUp+leadMax)))
	r = s.result("steady", after)
	r.Timers, r.Rate, r.CPU, r.Lateness = len(commands), opt.Rate, after.since(before, len(commands)), lateness
	return r, err
}

// keep publishes commands at the rate, as long as there are to be more.
func (s *system) keep(ctx context.Context, more func(sent int) bool) (commands []timer.ScheduleTimer, err error) {
	to, topic := broker.NewWatermillPublisher(s.client.Publisher()), s.client.Routing().Subscription()
	err = paced(ctx, s.opt.Rate, more, func(now time.Time, first, next int) func(context.Context) error {
		var batch []*message.Message
		for n := first; n < next; n++ {
			c := command(s.opt.tenant(n), now, now.Add(leadMin+time.Duration(rand.Int64N(int64(leadMax-leadMin)))))
			commands, batch = append(commands, c), append(batch, encode(c))
		}
		return func(context.Context) error { return to.Publish(topic, batch...) }
	})
	return commands, err
}
