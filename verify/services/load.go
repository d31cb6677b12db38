package services

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/services/judge"
)

// A command is what a client asks a service for.
type command struct {
	op     int
	do     string
	key    string
	due    time.Time // zero in a cancel
	before int       // the command of the key that it replaces; 0 in a schedule
	at     time.Time // when it was first sent
	again  bool      // it was sent before, and not answered
}

// An answer is what a service says to a command.
type answer int

const (
	inForce answer = iota // the command is durable, and has its effect
	pending               // the command is durable; a receipt will say that it has its effect
	refused               // the command has no effect, and will have none
)

const (
	tryTimeout = 3 * time.Second // for one answer
	tryPause   = 100 * time.Millisecond
	giveUp     = 40 * time.Second // on a command
	mostOnWay  = 2000             // commands that wait for their answer; then the load pauses
	leastDelay = 1                // seconds
	percent    = 5                // of the timers are moved, and as many are canceled
)

// A load sends commands. Delays are whole seconds, for the sake of services with a queue for
// each delay.
type load struct {
	to   service
	rec  *recorder
	rate int // schedules a second
	most int // seconds until a timer is due
	rand *rand.Rand
	can  Abilities

	ops     atomic.Int64
	timers  sync.WaitGroup
	onWay   chan struct{}
	skipped int // schedules that were not sent, since too many were on their way
}

// Abilities are what a service can do apart from scheduling.
type Abilities struct{ Move, Cancel bool }

// run sends commands until ctx is done, and returns when all are answered or given up.
func (l *load) run(ctx, running context.Context) {
	l.onWay = make(chan struct{}, mostOnWay)
	tick := time.NewTicker(time.Second / time.Duration(l.rate))
	defer tick.Stop()
	defer l.timers.Wait()
	for n := 1; ; n++ {
		select {
		case <-running.Done():
			return
		case <-tick.C:
		}
		t := plan{
			key: fmt.Sprintf("t%d", n), delay: leastDelay + l.rand.IntN(l.most), change: l.rand.IntN(100),
			when: l.rand.Float64(), again: leastDelay + l.rand.IntN(l.most),
		}
		select {
		case l.onWay <- struct{}{}:
			l.timers.Go(func() { l.live(ctx, t) })
		default:
			l.skipped++
		}
	}
}

// A plan is what becomes of one timer.
type plan struct {
	key          string
	delay, again int     // seconds until it is due, and from a move on
	change       int     // out of 100
	when         float64 // which part of the delay is over at a change
}

// live schedules a timer, and moves or cancels it later. A change follows only on an answer.
func (l *load) live(ctx context.Context, t plan) {
	due := dueIn(t.delay)
	op, taken := l.send(ctx, command{do: judge.Schedule, key: t.key, due: due})
	<-l.onWay
	move := t.change < percent && l.can.Move
	cancel := t.change >= 100-percent && l.can.Cancel
	if !taken || !move && !cancel {
		return
	}
	if !pause.For(ctx, time.Duration(t.when*float64(time.Until(due)))) {
		return
	}
	if cancel {
		l.send(ctx, command{do: judge.Cancel, key: t.key, before: op})
		return
	}
	l.send(ctx, command{do: judge.Move, key: t.key, due: dueIn(t.again), before: op})
}

// dueIn returns a time as services keep it, in milliseconds. It is rounded down, so that a
// delay that counts from when a server has the command is not too short.
func dueIn(seconds int) time.Time {
	return time.Now().Add(time.Duration(seconds) * time.Second).Truncate(time.Millisecond)
}

// send sends a command until it is answered, and returns its number and whether it was taken.
func (l *load) send(ctx context.Context, c command) (op int, taken bool) {
	c.op, c.at = int(l.ops.Add(1)), time.Now()
	l.rec.noteSent(c)
	for end := time.Now().Add(giveUp); time.Now().Before(end); {
		a, err := l.try(ctx, c)
		if err == nil {
			l.rec.noteAnswer(c, a)
			return c.op, a != refused
		}
		c.again = true
		if !pause.For(ctx, tryPause) {
			break
		}
	}
	return c.op, false
}

func (l *load) try(ctx context.Context, c command) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return l.to.do(ctx, c)
}
