package faults_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/crash/traffic"
)

const (
	interval   = 20 * time.Millisecond // between two commands
	tenants    = 8
	publishTry = 2 * time.Second // longest wait for the broker's answer
	giveUp     = time.Minute     // for commands that are on their way at the end
)

// observe records what the broker keeps of what the service sends, what it
// says again and what it acks.
func (w *world) observe() {
	w.Helper()
	stream, err := w.js.Stream(w.Context(), "svc")
	if err != nil {
		w.Fatal(err)
	}
	for topic, handler := range map[string]natsgo.MsgHandler{"$JS.ACK.>": w.acked, history.AllTopics: w.attempted} {
		sub, err := w.conn.Subscribe(topic, handler)
		if err != nil {
			w.Fatal(err)
		}
		if err := sub.SetPendingLimits(-1, -1); err != nil {
			w.Fatal(err)
		}
	}
	if err := w.conn.Flush(); err != nil {
		w.Fatal(err)
	}
	events, err := stream.OrderedConsumer(w.Context(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{history.AllTopics}, DeliverPolicy: jetstream.DeliverAllPolicy,
	})
	if err != nil {
		w.Fatal(err)
	}
	reading, err := events.Consume(w.kept)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(reading.Stop)
}

// kept records what the broker keeps.
func (w *world) kept(msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		return // not from the stream
	}
	header := make(map[string]string)
	for name, values := range msg.Headers() {
		header[name] = strings.Join(values, ", ")
	}
	w.recorder.Message(history.Message{
		Topic: msg.Subject(), Seq: meta.Sequence.Stream, At: meta.Timestamp, Header: header, Body: msg.Data(),
	})
}

// attempted records what is published.
func (w *world) attempted(msg *natsgo.Msg) {
	w.recorder.Attempt(history.Message{Topic: msg.Subject, Body: msg.Data})
}

// acked records that a command is acked. The topic is
// $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>.
func (w *world) acked(msg *natsgo.Msg) {
	token := strings.Split(msg.Subject, ".")
	if string(msg.Data) != "+ACK" || len(token) != 9 {
		return
	}
	if seq, err := strconv.ParseUint(token[5], 10, 64); err == nil {
		w.recorder.Accepted(seq, time.Now())
	}
}

// A producer sends commands at a steady rate, each until the broker has it.
type producer struct {
	enough chan struct{}
	once   sync.Once
	work   sync.WaitGroup
}

// produce begins to send.
func (w *world) produce() *producer {
	p := &producer{enough: make(chan struct{})}
	made := traffic.New(w.seed, tenants)
	p.work.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-p.enough:
				return
			case <-tick.C:
			}
			c := made.Next(time.Now())
			p.work.Go(func() { w.send(p, c) })
		}
	})
	w.Cleanup(p.stop)
	return p
}

// stop ends production when all that was sent has arrived, or was given up.
func (p *producer) stop() {
	p.once.Do(func() { close(p.enough) })
	p.work.Wait()
}

// send publishes a command until the broker confirms it. The broker's dedupe id
// makes a second try safe.
func (w *world) send(p *producer, c history.Command) {
	msg := natsgo.NewMsg(history.CommandsTopic)
	msg.Data = c.Body
	for name, value := range c.Header {
		msg.Header.Set(name, value)
	}
	sent := history.Sent{Command: c, SentAt: time.Now()}
	var late <-chan time.Time
	enough := p.enough
	for {
		sent.Tries++
		ctx, cancel := context.WithTimeout(context.Background(), publishTry)
		ack, err := w.js.PublishMsg(ctx, msg, jetstream.WithMsgID(c.DedupeID), jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil {
			sent.Acked, sent.Seq = true, ack.Sequence
			break
		}
		pause := time.After(200 * time.Millisecond)
		select {
		case <-enough:
			enough, late = nil, time.After(giveUp)
			<-pause
			continue
		case <-pause:
			continue
		case <-late:
		}
		break
	}
	w.recorder.Sent(sent)
}

// scheduleTimer is the command of a client that schedules a timer.
func scheduleTimer(call string, now, due time.Time) []byte {
	return fmt.Appendf(nil,
		`{"id":%[1]q,"type":"ScheduleTimer","tenantId":"acme","timestampMs":%[2]d,"payload":{"tenantId":"acme","serviceCallId":%[1]q,"dueAt":%[3]q}}`,
		call, now.UnixMilli(), due.UTC().Format(time.RFC3339Nano))
}
