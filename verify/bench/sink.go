package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/verify/crash"
)

// A sink is the consumer. It notes events and their times, and decodes them when
// all is over: a consumer that is slow would measure itself.
type sink struct {
	want     int           // 0: not known yet
	complete chan struct{} // closed when all expected events have come

	mu    sync.Mutex
	seen  map[string]bool // by id
	came  []arrival
	extra int // that came before under the same id
}

type arrival struct {
	at      time.Time
	due     time.Time        // set by peers
	message *message.Message // set by consumers of the service
}

func newSink(want int) *sink {
	return &sink{want: want, complete: make(chan struct{}), seen: make(map[string]bool, want), came: make([]arrival, 0, want)}
}

// expect sets how many events are to come, if that was not known before.
func (k *sink) expect(want int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.want = want
	if len(k.came) == want {
		close(k.complete)
	}
}

// listen takes the events that no other takes, until ctx is done.
func (k *sink) listen(ctx context.Context, s *system, others ...func(*message.Message, time.Time) bool) error {
	for _, topic := range s.topics(len(others) > 0) {
		events, err := s.client.Tail().Subscribe(ctx, topic)
		if err != nil {
			return fmt.Errorf("subscribe to the events: %w", err)
		}
		go func() {
			for m := range events {
				at := time.Now()
				if !slices.ContainsFunc(others, func(take func(*message.Message, time.Time) bool) bool { return take(m, at) }) {
					k.take(m.UUID, arrival{at: at, message: m})
				}
				m.Ack()
			}
		}()
	}
	return nil
}

// topics are where the events of all tenants arrive, with the great one or
// without.
func (s *system) topics(great bool) []string {
	r := s.client.Routing()
	if r.Wildcard != "" && s.opt.Broker != crash.RabbitMQ { // its wildcard is for commands
		return []string{r.EventsOf(timer.TenantID(r.Wildcard))}
	}
	var all []string
	for n := range s.opt.Tenants {
		if topic := r.EventsOf(s.opt.tenant(n)); !slices.Contains(all, topic) {
			all = append(all, topic)
		}
	}
	if topic := r.EventsOf(greatTenant); great && !slices.Contains(all, topic) {
		all = append(all, topic)
	}
	return all
}

func (k *sink) take(id string, a arrival) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen[id] {
		k.extra++
		return
	}
	k.seen[id] = true
	k.came = append(k.came, a)
	if len(k.came) == k.want {
		close(k.complete)
	}
}

// await waits until all events have come, or longer than the timeout for the
// next one.
func (k *sink) await(ctx context.Context, s *system, timeout time.Duration) error {
	idle := time.NewTicker(timeout)
	defer idle.Stop()
	for before := -1; ; {
		select {
		case <-k.complete:
			return nil
		case <-s.fell:
			return s.fall
		case <-ctx.Done():
			return ctx.Err()
		case <-idle.C:
		}
		k.mu.Lock()
		now := len(k.came)
		k.mu.Unlock()
		if now == before {
			return fmt.Errorf("void: %d of %d events came, then none for %v", now, k.want, timeout)
		}
		before = now
	}
}

// last returns when the last event came that was new.
func (k *sink) last() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.came[len(k.came)-1].at
}
