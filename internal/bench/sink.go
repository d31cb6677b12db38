package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A sink is the consumer. It notes what comes and when, and looks into it when
// all is over: a consumer that is slow would measure itself.
type sink struct {
	want     int
	complete chan struct{} // closed when so many different events have come

	mu    sync.Mutex
	seen  map[string]bool // by id
	came  []arrival
	extra int // that came before under the same id
}

type arrival struct {
	at      time.Time
	message *message.Message
}

func newSink(want int) *sink {
	return &sink{want: want, complete: make(chan struct{}), seen: make(map[string]bool, want), came: make([]arrival, 0, want)}
}

// listen takes events until ctx is done.
func (k *sink) listen(ctx context.Context, s *system) error {
	for _, topic := range s.topics() {
		events, err := s.client.Tail().Subscribe(ctx, topic)
		if err != nil {
			return fmt.Errorf("subscribe to the events: %w", err)
		}
		go func() {
			for m := range events {
				k.take(m.UUID, arrival{at: time.Now(), message: m})
				m.Ack()
			}
		}()
	}
	return nil
}

// topics are where the events of all tenants arrive.
func (s *system) topics() []string {
	r := s.client.Routing()
	if r.Wildcard != "" {
		return []string{r.EventsOf(timer.TenantID(r.Wildcard))}
	}
	var all []string
	for n := range s.opt.Tenants {
		if topic := r.EventsOf(s.opt.tenant(n)); !slices.Contains(all, topic) {
			all = append(all, topic)
		}
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

// await waits until all events have come, or longer than the patience for the
// next one.
func (k *sink) await(ctx context.Context, s *system, patience time.Duration) error {
	look := time.NewTicker(patience)
	defer look.Stop()
	for before := -1; ; {
		select {
		case <-k.complete:
			return nil
		case <-s.ended:
			return fmt.Errorf("the service ended: %w\n%s", s.err, s.log.String())
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
		k.mu.Lock()
		now := len(k.came)
		k.mu.Unlock()
		if now == before {
			return fmt.Errorf("void: %d of %d events came, then none for %v", now, k.want, patience)
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

const maxLateness = int64(10 * time.Minute / time.Microsecond)

// judge returns how late the timers fired that were due at a time or later, in
// microseconds of the consumer's clock. It returns an error unless each of the
// commands had its event once and not early.
func (k *sink) judge(commands []timer.ScheduleTimer, from time.Time) (*hdrhistogram.Histogram, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	due := make(map[timer.Key]time.Time, len(commands))
	for _, c := range commands {
		due[c.Key] = timer.RoundUp(c.DueAt)
	}
	lateness := hdrhistogram.New(1, maxLateness, 3)
	early, strange := 0, 0
	for _, a := range k.came {
		decoded, err := envelope.Decode(a.message.Payload)
		e, ok := decoded.Payload.(timer.DueTimeReached)
		if err != nil || !ok {
			strange++
			continue
		}
		at, asked := due[e.Key]
		if !asked {
			strange++
			continue
		}
		delete(due, e.Key)
		if a.at.Before(at) {
			early++
		}
		if !at.Before(from) {
			_ = lateness.RecordValue(min(max(a.at.Sub(at).Microseconds(), 1), maxLateness)) // within its limits
		}
	}
	if len(due) > 0 || early > 0 || strange > 0 || k.extra > 0 {
		return nil, fmt.Errorf("void: of %d timers %d did not fire, %d fired early; %d events came again, %d nobody asked for",
			len(commands), len(due), early, k.extra, strange)
	}
	return lateness, nil
}
