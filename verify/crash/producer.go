package crash

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

const (
	tenants        = 20                     // whose commands there are
	publishers     = 32                     // commands on their way to the broker at once
	publishTry     = 300 * time.Millisecond // longest wait for the broker's answer, which never comes if it dies
	publishPause   = 100 * time.Millisecond // between two tries
	publishTimeout = 30 * time.Second       // for commands on their way when production stops
	productionTick = 5 * time.Millisecond
)

// A commandPublisher is the part of a [wire] that commands go through.
type commandPublisher interface {
	publish(ctx context.Context, c history.Command) (seq uint64, err error)
}

// A producer publishes commands at a steady rate, whatever becomes of them.
type producer struct {
	to       commandPublisher
	make     *traffic.Generator
	recorder *history.Recorder
	rate     int           // commands a second
	timeout  time.Duration // for an answer of the broker; default publishTry
}

// run produces until stop is closed, and returns when each command is confirmed
// or given up.
func (p *producer) run(ctx context.Context, stop <-chan struct{}) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	commands := make(chan history.Command)
	var sending sync.WaitGroup
	for range publishers {
		sending.Go(func() {
			for c := range commands {
				p.send(ctx, c)
			}
		})
	}
	p.produce(ctx, stop, commands)
	close(commands)
	t := time.AfterFunc(publishTimeout, giveUp)
	defer t.Stop()
	sending.Wait()
}

// produce makes as many commands as the rate requires. If the broker holds them
// up, it makes up for it later.
func (p *producer) produce(ctx context.Context, stop <-chan struct{}, commands chan<- history.Command) {
	tick := time.NewTicker(productionTick)
	defer tick.Stop()
	began := time.Now()
	for made := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case <-tick.C:
		}
		for want := int(time.Since(began).Seconds() * float64(p.rate)); made < want; made++ {
			select {
			case commands <- p.make.Next(time.Now()):
			case <-ctx.Done():
				return
			case <-stop:
				return
			}
		}
	}
}

// send publishes a command until the broker confirms it.
func (p *producer) send(ctx context.Context, c history.Command) {
	sent := history.Sent{Command: c, SentAt: time.Now()}
	for {
		sent.Tries++
		seq, err := p.try(ctx, c)
		if err == nil {
			sent.Acked, sent.Seq = true, seq
			break
		}
		if !pause.For(ctx, publishPause) {
			break
		}
	}
	p.recorder.Sent(sent)
}

func (p *producer) try(ctx context.Context, c history.Command) (seq uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.timeout, publishTry))
	defer cancel()
	return p.to.publish(ctx, c)
}
