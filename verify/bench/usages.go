package bench

import (
	"context"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/verify/bench/machine"
	"github.com/event-service-agent/timer-service/verify/crash"
)

// Usages are what all processes have used.
type usages struct {
	service machine.Usage // all instances; of memory, the one with the most
	broker  machine.Usage
	client  machine.Usage
	store   time.Duration // CPU time of the database's server
}

func (s *system) usages(ctx context.Context) (u usages, err error) {
	for _, i := range s.instances {
		one, err := machine.Used(i.PID())
		if err != nil {
			return u, err
		}
		u.service.CPU += one.CPU
		u.service.PeakMiB = max(u.service.PeakMiB, one.PeakMiB)
	}
	outside, err := usagesOf(s.broker)
	if err != nil {
		return u, err
	}
	u.broker, u.client = outside.broker, outside.client
	u.store, err = s.database.Usage(ctx)
	return u, err
}

// usagesOf returns those of a broker, which may be nil, and of this process.
func usagesOf(broker crash.Server) (u usages, err error) {
	if broker != nil {
		if u.broker, err = machine.Used(broker.PID()); err != nil {
			return u, err
		}
	}
	u.client, err = machine.Used(os.Getpid())
	return u, err
}

// since returns the CPU time for each of n timers since an earlier reading.
func (u usages) since(earlier usages, n int) *CPU {
	return &CPU{
		Service: each(n, u.service.CPU-earlier.service.CPU),
		Store:   each(n, u.store-earlier.store),
		Broker:  each(n, u.broker.CPU-earlier.broker.CPU),
		Client:  each(n, u.client.CPU-earlier.client.CPU),
	}
}

// restLimit is the longest wait for the service to come to rest. Its housekeeping
// may go on, such as forgetting timers.
const restLimit = 2 * time.Second

// rest waits until the service has nothing left to do, and returns what has been
// used: the last events are deleted from its outbox after they came.
func (s *system) rest(ctx context.Context) (usages, error) {
	before, err := s.usages(ctx)
	if err != nil {
		return before, err
	}
	for idle, began := 0, time.Now(); ; {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return usages{}, ctx.Err()
		}
		after, err := s.usages(ctx)
		if err != nil {
			return usages{}, err
		}
		if idle++; after.service.CPU > before.service.CPU {
			idle = 0
		}
		if idle == 3 || time.Since(began) > restLimit {
			return after, nil
		}
		before = after
	}
}
