package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	greatTenant = "great"          // has many timers
	aloneMin    = 5 * time.Second  // that the small ones are measured alone
	aloneMax    = 20 * time.Second // the longest time
	stalled     = 20 * time.Second // nothing comes of the great one: nothing will
)

// slowestFill is how many timers a second are put into a database at least.
const slowestFill = 25_000

// Fairness has all timers of one large tenant due at one instant, and
// small tenants with a timer each second each, and measures how late theirs are,
// before that instant and from then on until the great one has fired. An error
// that begins with "void" says that the figures mean nothing.
func Fairness(ctx context.Context, opt Options) (r Result, err error) {
	if opt.Timers <= 0 {
		opt.Timers = 1_000_000
	}
	if opt.Tenants <= 0 {
		opt.Tenants = 300
	}
	if opt.Lead <= 0 {
		opt.Lead = warmUp + leadMax + aloneMax + time.Duration(opt.Timers)*time.Second/slowestFill
	}
	opt = opt.withDefaults()
	opt.Rate = opt.Tenants
	fall := time.Now().Add(opt.Lead).Truncate(time.Second)
	s, err := open(ctx, opt, load{timers: opt.Timers, tenant: func(int) timer.TenantID { return greatTenant }, from: fall})
	defer func() { err = errors.Join(err, s.shut()) }()
	if err != nil {
		return r, err
	}
	k, g := newSink(0), newLargeTenant(opt.Timers)
	if err := k.listen(ctx, s, g.take); err != nil {
		return r, err
	}
	began := time.Now()
	if alone := fall.Sub(began) - warmUp - leadMax; alone < aloneMin {
		return r, fmt.Errorf("void: %v remain until the timers of the great tenant are due; give it a longer --lead", alone.Round(time.Millisecond))
	} else if alone > aloneMax {
		select {
		case <-time.After(alone - aloneMax):
		case <-ctx.Done():
			return r, ctx.Err()
		}
		began = time.Now()
	}
	commands, err := s.keep(ctx, func(int) bool { return g.more(fall) && !isClosed(s.fell) })
	if err != nil {
		return r, err
	}
	last, err := g.judge(fall)
	if err != nil {
		return r, err
	}
	k.expect(len(commands))
	if err := k.await(ctx, s, 10*time.Second); err != nil {
		return r, err
	}
	after, err := s.rest(ctx)
	if err != nil {
		return r, err
	}
	both, err := k.judgeEach(commands, window{began.Add(warmUp + leadMax), fall}, window{fall, last})
	if err != nil {
		return r, err
	}
	r = s.result("fairness", after)
	r.Timers, r.Rate, r.Alone, r.Lateness = opt.Timers, opt.Rate, both[0], both[1]
	r.Delivered = rate(opt.Timers, last.Sub(fall))
	return r, nil
}

// A largeTenant counts the events of the large tenant.
type largeTenant struct {
	want int

	mu    sync.Mutex
	seen  map[string]bool // by id
	first time.Time       // when the first came
	last  time.Time       // when the last came
	extra int             // that came before under the same id
}

func newLargeTenant(want int) *largeTenant {
	return &largeTenant{want: want, seen: make(map[string]bool, want)}
}

// take counts an event if it is one of these.
func (g *largeTenant) take(m *message.Message, at time.Time) bool {
	if m.Metadata.Get(envelope.HeaderTenantID) != greatTenant {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen[m.UUID] {
		g.extra++
		return true
	}
	if len(g.seen) == 0 {
		g.first = at
	}
	g.seen[m.UUID], g.last = true, at
	return true
}

// more reports whether more of it will come, as far as can be seen.
func (g *largeTenant) more(fall time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := fall
	if g.last.After(last) {
		last = g.last
	}
	return len(g.seen) < g.want && time.Since(last) < stalled
}

// judge returns when the last event came, or an error unless each came once and
// none early.
func (g *largeTenant) judge(fall time.Time) (last time.Time, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.seen) != g.want || g.extra > 0 || g.first.Before(fall) {
		return g.last, fmt.Errorf("void: %d of the great tenant's %d timers fired, the first %v after it was due; %d events came again",
			len(g.seen), g.want, g.first.Sub(fall), g.extra)
	}
	return g.last, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
