package rabbitmq_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/internal/proxy"
)

// TestStopSendsAcksToAServerThatAnswersLate has answers of the server take longer than a
// stop waits for them.
func TestStopSendsAcksToAServerThatAnswersLate(t *testing.T) {
	t.Parallel()
	r := open(t)
	topic := r.topic()
	b, stop := r.start(r.opt)
	messages := subscribe(t, b, "reader", topic)
	const n = 50
	publish(t, b, topic, make([]string, n)...)
	var taken []*message.Message
	for range n {
		taken = append(taken, next(t, messages))
	}
	r.proxy.Delay(proxy.ToClient, 10*time.Second)
	for _, msg := range taken {
		msg.Ack()
	}
	stop()
	r.proxy.Pass()
	other := r.ready(r.opt)
	rest := subscribe(t, other, "reader", topic)
	publish(t, other, topic, "new")
	expect(t, rest, "new")
}

func TestServersAreTriedInTurn(t *testing.T) {
	t.Parallel()
	r := open(t)
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	refusing.Close()
	r.opt.URL = "amqp://guest:guest@" + refusing.Addr().String() + ", " + r.opt.URL
	b := r.ready(r.opt)
	publish(t, b, r.topic(), "event")
}

func TestCredentialsMayBeCorrectedLater(t *testing.T) {
	t.Parallel()
	r := open(t)
	var log logbuf.Buffer
	right := r.opt.URL
	r.opt.URL = strings.Replace(right, "guest:guest", "guest:hunter2", 1)
	b := rabbitmq.New(r.opt, slog.New(slog.NewTextHandler(&log, nil)))
	stop := brokertest.Start(t, b)
	until(t, "an answer about the password", func() bool {
		err := b.Ready(t.Context())
		return err != nil && strings.Contains(strings.ToLower(err.Error()), "refuses the user")
	})
	if _, err := b.Provision(t.Context(), true); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Provision: %v", err)
	}
	stop()
	if strings.Contains(log.String(), "hunter2") || log.String() == "" {
		t.Errorf("the log has the password, or nothing: %s", log.String())
	}

	r.opt.URL = strings.Replace(right, "guest:guest@", "", 1)
	r.opt.Username, r.opt.Password = "guest", "guest"
	publish(t, r.ready(r.opt), r.topic(), "event")
}

func TestReadyAndRunNeverWaitForAServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	r := open(t)
	b, stop := r.start(r.opt)
	messages := subscribe(t, b, "reader", r.topic())
	publish(t, b, r.topic(), "event")
	next(t, messages)
	r.proxy.Drop(proxy.ToServer, proxy.ToClient)
	began := time.Now()
	if b.Ready(t.Context()) == nil {
		t.Error("ready without a server")
	}
	if took := time.Since(began); took > 5*time.Second { // a busy machine
		t.Errorf("Ready took %v", took)
	}
	stop()
	r.proxy.Reset() // the server may let go of what it knows
}

func TestVisitEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	r := open(t)
	b := r.ready(r.opt)
	deadLetters := r.opt.Routing.DeadLettersOf("acme")
	publish(t, b, deadLetters, "1", "2", "3")
	err := b.VisitDeadLetters(t.Context(), "acme", "", broker.EachDeadLetter(t.Context(), func(m *message.Message) (bool, error) {
		if string(m.Payload) == "2" {
			r.proxy.Reset()
		}
		return false, nil
	}))
	if err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an error about the connection", err)
	}
	awaitReady(t, b)
	var all []string
	until(t, "the dead letters that the server requeues", func() bool {
		all, _ = letters(b)
		return len(all) == 3
	})
	if strings.Join(all, "") != "123" {
		t.Errorf("dead letters are %q", all)
	}
}

// The server answers how many messages are left in a queue before it sends the messages that
// have left it.
func TestCatchUpWaitsForWhatHasLeftTheQueueAndHasNotCome(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	r := open(t)
	const n = 3000
	var acked atomic.Int64
	b := [...]*rabbitmq.Broker{r.ready(r.opt), r.ready(r.opt)}
	subscribed := func(i int) (end func()) {
		s := b[i].Subscriber("timer-service")
		messages, err := s.Subscribe(t.Context(), r.opt.Routing.Commands)
		must(t, err)
		go func() {
			for msg := range messages {
				acked.Add(1)
				msg.Ack()
			}
		}()
		return func() { _ = s.Close() }
	}
	subscribed(0)()
	for range 10 {
		acked.Store(0)
		for range n {
			r.send(amqp.Publishing{Body: []byte("command")})
		}
		until(t, "backlog", func() bool {
			q, err := r.raw.QueueDeclarePassive(r.opt.Routing.Commands, true, false, false, false, nil)
			return err == nil && q.Messages == n
		})
		first, second := subscribed(0), subscribed(1)
		for i := range b {
			must(t, b[i].CatchUp(t.Context(), "timer-service"))
		}
		if got := acked.Load(); got != n {
			t.Errorf("%d of %d messages were acked when both had caught up", got, n)
		}
		until(t, "the last message", func() bool { return acked.Load() == n })
		first()
		second()
	}
}
