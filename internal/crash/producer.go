package crash

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/internal/crash/history"
	"github.com/event-service-agent/timer-service/internal/crash/traffic"
	"github.com/event-service-agent/timer-service/internal/pause"
)

const (
	publishers      = 32                     // commands on their way to the broker at once
	publishTry      = 300 * time.Millisecond // longest wait for the broker's answer, which never comes if it dies
	publishPause    = 100 * time.Millisecond // between two tries
	publishPatience = 30 * time.Second       // for commands on their way when production stops
	productionTick  = 5 * time.Millisecond
)

// A producer publishes commands at a steady rate, whatever becomes of them.
type producer struct {
	js       jetstream.JetStream
	make     *traffic.Generator
	recorder *history.Recorder
	now      func() time.Time
	rate     int // commands a second
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
	t := time.AfterFunc(publishPatience, giveUp)
	defer t.Stop()
	sending.Wait()
}

// produce makes as many commands as the rate asks for. If the broker holds them
// up, it makes up for it later.
func (p *producer) produce(ctx context.Context, stop <-chan struct{}, commands chan<- history.Command) {
	tick := time.NewTicker(productionTick)
	defer tick.Stop()
	began := p.now()
	for made := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case <-tick.C:
		}
		for want := int(p.now().Sub(began).Seconds() * float64(p.rate)); made < want; made++ {
			select {
			case commands <- p.make.Next(p.now()):
			case <-ctx.Done():
				return
			case <-stop:
				return
			}
		}
	}
}

// send publishes a command until the broker confirms it. The broker's dedupe id
// makes a second try safe.
func (p *producer) send(ctx context.Context, c history.Command) {
	msg := &nats.Msg{Subject: history.CommandsTopic, Data: c.Body, Header: nats.Header{}}
	for name, value := range c.Header {
		msg.Header.Set(name, value)
	}
	sent := history.Sent{Command: c, SentAt: p.now()}
	for {
		sent.Tries++
		ack, err := p.try(ctx, msg, c.DedupeID)
		if err == nil {
			sent.Acked, sent.Seq = true, ack.Sequence
			break
		}
		if !pause.For(ctx, publishPause) {
			break
		}
	}
	p.recorder.Sent(sent)
}

func (p *producer) try(ctx context.Context, msg *nats.Msg, dedupeID string) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTry)
	defer cancel()
	return p.js.PublishMsg(ctx, msg, jetstream.WithMsgID(dedupeID), jetstream.WithRetryAttempts(0))
}
