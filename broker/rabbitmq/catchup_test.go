package rabbitmq_test

import (
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker/rabbitmq"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

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
