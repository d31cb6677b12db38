package rabbitmq_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/longtest"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestLargeMessagesThatWaitInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	r := open(t)
	b := r.ready(r.opt)
	const n, size, limit = 40, 4 << 20, 64 << 20
	body := []byte(strings.Repeat("x", size))
	for i := range n {
		r.send(amqp.Publishing{MessageId: strconv.Itoa(i), Body: body})
	}
	commands := subscribe(t, b, "timer-service", r.opt.Routing.Commands)
	left, waiting := n, make(map[string]bool)
	for left == n { // until the first of them comes again
		msg := next(t, commands)
		if waiting[msg.UUID] {
			msg.Ack()
			left--
			continue
		}
		waiting[msg.UUID] = true
		msg.Nack()
	}
	// A nack is noticed a moment later, so as many messages may be in flight as wait.
	if most := 2 * limit / size; len(waiting) > most {
		t.Errorf("%d messages of %d bytes are in memory, want at most %d", len(waiting), size, most)
	}
	for range left { // each of them comes, sooner or later
		next(t, commands).Ack()
	}
}

func TestRunEndsWhileQueuesHang(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	b, stop := r.start(r.opt)
	commands := subscribe(t, b, "timer-service", "timer.commands")
	publish(t, b, "timer.commands", "one", "two")
	one, two := next(t, commands), next(t, commands)
	o.suspend("timer.commands")
	one.Nack()
	began := time.Now()
	stop()
	if took := time.Since(began); took > time.Second {
		t.Errorf("Run ended after %v, want at most a second", took)
	}
	two.Ack() // it is too late for that
}

func TestQueueThatHangsWhileItIsDeclaredTakesOneChannel(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	hangs := r.opt.Routing.EventsOf("hangs")
	publish(t, r.ready(r.opt), hangs, "event")
	resume := o.suspend(hangs)
	b := r.ready(r.opt) // which does not know the queue
	publish(t, b, r.topic(), "event")
	before := o.channels()
	for range 4 {
		if err := publishes(b, hangs, "event"); err == nil {
			t.Fatal("published to a queue that hangs")
		}
		publish(t, b, r.topic(), "event")
	}
	if more := o.channels() - before; more > 1 {
		t.Errorf("%d more channels are open", more)
	}
	resume()
	until(t, "a queue that works", func() bool {
		return publishes(b, hangs, "event") == nil
	})
}

func (o *own) channels() (n int) {
	o.Helper()
	for _, field := range strings.Fields(o.ctl("list_connections", "channels")) {
		of, _ := strconv.Atoi(field) // an error: it is the head of the column
		n += of
	}
	return n
}
