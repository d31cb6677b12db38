package rabbitmq_test

import (
	"errors"
	"testing"

	"github.com/event-service-agent/timer-service/internal/longtest"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
)

var features = brokertest.Features{Durable: true, MaxBytes: 1<<20 + 1}

// fail makes a topic fail: no queue is bound to its key, and a queue that does not fit has
// its name.
func (r *rabbit) fail(topic string) (restore func()) {
	reader := topic + ".reader" // the queue of the role that the suite subscribes
	_, deleted := r.raw.QueueDelete(topic, false, false, false)
	unbound := r.raw.QueueUnbind(reader, topic, r.opt.Exchange, nil)
	_, declared := r.raw.QueueDeclare(topic, true, false, false, false, amqp.Table{"x-max-length": 1})
	must(r, errors.Join(deleted, unbound, declared))
	return func() {
		_, deleted := r.raw.QueueDelete(topic, false, false, false)
		if err := errors.Join(deleted, r.raw.QueueBind(reader, topic, r.opt.Exchange, false, nil)); err != nil {
			r.Error(err)
		}
	}
}

// contract opens a server that a proxy seems to stop and start.
func contract(t testing.TB) brokertest.Server { return contractOf(open(t)) }

func contractOf(r *rabbit) brokertest.Server {
	return brokertest.Server{
		Broker: func() broker.Broker { return r.broker(r.opt) },
		Stop: func() {
			r.proxy.Refuse()
			r.proxy.Reset()
		},
		Start: r.proxy.Pass,
		Fail:  r.fail,
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, features, contract)
}

func TestContractOfQuorumQueues(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	f := features
	f.Reorders = true
	f.LosesAcks = true // seen in one of 150 runs with eight busy loops: the stop took 35 ms, with RabbitMQ 3.10
	brokertest.Run(t, f, func(t testing.TB) brokertest.Server {
		r := open(t)
		r.opt.QueueType = rabbitmq.Quorum
		return brokertest.Server{Broker: func() broker.Broker { return r.broker(r.opt) }}
	})
}

func TestWatermill(t *testing.T) {
	t.Parallel()
	brokertest.Watermill(t, features, contract)
}

func BenchmarkBroker(b *testing.B) {
	brokertest.Bench(b, features, func(t testing.TB) brokertest.Server {
		r := open(t)
		r.opt.URL = r.direct
		return brokertest.Server{Broker: func() broker.Broker { return r.broker(r.opt) }}
	})
}
