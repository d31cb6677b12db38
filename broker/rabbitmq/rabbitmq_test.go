package rabbitmq_test

import (
	"testing"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
)

var features = brokertest.Features{Durable: true, Offers: true, MaxBytes: 1<<20 + 1}

// contract opens a server that a proxy seems to stop and start.
func contract(t testing.TB) brokertest.Server {
	r := open(t)
	return brokertest.Server{
		Broker: func() broker.Broker { return r.broker(r.opt) },
		Stop: func() {
			r.proxy.Refuse()
			r.proxy.Reset()
		},
		Start: r.proxy.Pass,
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, features, contract)
}

func TestContractOfQuorumQueues(t *testing.T) {
	t.Parallel()
	f := features
	f.Reorders = true
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
