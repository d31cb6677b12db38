package handlers

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// An inboxState counts the messages of the inbox, so that its limits are kept without asking the
// store for each message. Other instances put messages there, too, so it counts now and then.
type inboxState struct {
	inbox timer.Inbox
	clock timer.Clock
	limit InboxLimits
	wake  chan struct{} // holds a value when next was moved
	many  atomic.Bool   // a tenant has many selections that were applied

	mu      sync.Mutex
	next    time.Time // when rows may be taken
	tenants map[timer.TenantID]*waitingCount
	bytes   int64 // of all
	counted time.Time
	cost    time.Duration // of the last count
	gates   map[timer.TenantID]gate

	// Sizes of messages for which there was no space.
	refused  map[timer.TenantID]int64 // since the tenant is at its bound
	inAll    int64                    // since all tenants together are; 0: there was none
	paused   map[timer.TenantID]int64 // whose handling had failed, for one of these reasons
	nacked   int                      // of paused tenants, since nackedAt
	nackedAt time.Time
}

// A gate keeps rows of a tenant, which exceeds its quota, from being taken.
type gate struct {
	until time.Time
	live  bool // the limit is the number of waiting timers
}

// A waitingCount counts messages of a tenant in the inbox.
type waitingCount struct {
	messages int64
	bytes    int64
	failed   timer.InboxCount // as it was counted last
}

// InboxLimits bound the messages that wait in the inbox. The zero value has the defaults.
type InboxLimits struct {
	Messages   int64         // of a tenant; default 100,000
	Bytes      int64         // of a tenant, of bodies and headers; default 64 MiB
	TotalBytes int64         // of all tenants; default 1 GiB
	MaxWait    time.Duration // after which a message becomes a dead letter; default DefaultMaxWait
}

// DefaultMaxWait is the longest time that a message waits.
const DefaultMaxWait = 3 * 24 * time.Hour

func (l InboxLimits) withDefaults() InboxLimits {
	l.Messages = option.Positive(l.Messages, 100_000)
	l.Bytes = option.Positive(l.Bytes, 64<<20)
	l.TotalBytes = option.Positive(l.TotalBytes, 1<<30)
	l.MaxWait = option.Positive(l.MaxWait, DefaultMaxWait)
	return l
}

const (
	failingTime = 20 * time.Minute // after which a message that fails is a matter for people
	countPause  = 5 * time.Second
	countShare  = 20     // the pause between two counts is at least this many times the duration of one
	maxStuck    = 10_000 // tenants of which it is remembered that there was no space for a message

	// Messages of paused tenants that are nacked stay in flight for up to 25 s. These bound
	// how many they are, in units of a message and of 16 KiB, so that they never fill the
	// window.
	nackTime = 30 * time.Second
	maxNacks = 256
)

// A StuckTenant has messages in the inbox that fail, or that the inbox could not take.
type StuckTenant struct {
	TenantID timer.TenantID
	Messages int64     // that wait
	Paused   bool      // its commands are not handled, since one failed and no more of its messages may wait
	Failing  int64     // messages that failed, if the first of them came long ago
	Since    time.Time // when it came
}

func newInboxState(in timer.Inbox, clock timer.Clock, limit InboxLimits) *inboxState {
	return &inboxState{
		inbox: in, clock: clock, limit: limit.withDefaults(), wake: make(chan struct{}, 1),
		tenants: make(map[timer.TenantID]*waitingCount), gates: make(map[timer.TenantID]gate),
		refused: make(map[timer.TenantID]int64), paused: make(map[timer.TenantID]int64),
	}
}

// hurry has selections that were applied be purged soon, since a tenant has many.
func (s *inboxState) hurry() {
	if !s.many.Swap(true) {
		s.sooner(s.clock.Now().Add(gatePause))
	}
}

// takeAt returns when rows may be taken.
func (s *inboxState) takeAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// takeNext says that no rows are to be taken before a time, unless sooner says another one.
func (s *inboxState) takeNext(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = at
}

// forgetTimes forgets all times that the clock has set.
func (s *inboxState) forgetTimes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.counted, s.nackedAt = time.Time{}, time.Time{}, time.Time{}
	clear(s.gates)
}

// sooner says that rows may be taken at a time.
func (s *inboxState) sooner(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !at.Before(s.next) {
		return
	}
	s.next = at
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// exceed says that a tenant exceeds its quota: none of its rows is taken for a time. It
// changes no such time that there is.
func (s *inboxState) exceed(tenant timer.TenantID, e *quota.Exceeded) {
	now := s.clock.Now()
	s.mu.Lock()
	if !s.gates[tenant].until.After(now) {
		s.gates[tenant] = gate{now.Add(e.Delay), e.Live}
	}
	at := s.gates[tenant].until
	s.mu.Unlock()
	s.sooner(at)
}

// open says that fewer timers of a tenant wait.
func (s *inboxState) open(tenant timer.TenantID) {
	s.mu.Lock()
	live := s.gates[tenant].live
	if live {
		delete(s.gates, tenant)
	}
	s.mu.Unlock()
	if live {
		s.sooner(s.clock.Now())
	}
}

// isClosed reports whether a tenant exceeds its quota.
func (s *inboxState) isClosed(tenant timer.TenantID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gates[tenant].until.After(s.clock.Now())
}

// closed returns the tenants that exceed their quota.
func (s *inboxState) closed(now time.Time) []timer.TenantID {
	s.mu.Lock()
	maps.DeleteFunc(s.gates, func(_ timer.TenantID, g gate) bool { return !g.until.After(now) })
	tenants := slices.Collect(maps.Keys(s.gates))
	next := time.Time{}
	for _, g := range s.gates {
		if next.IsZero() || g.until.Before(next) {
			next = g.until
		}
	}
	s.mu.Unlock()
	if !next.IsZero() {
		s.sooner(next)
	}
	return tenants
}

// isFull reports whether the inbox takes no more messages of a tenant, of a size.
func (s *inboxState) isFull(tenant timer.TenantID, size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.full(tenant, size) {
		return false
	}
	if s.bytes+size > s.limit.TotalBytes {
		s.inAll = size
	} else {
		remember(s.refused, tenant, size)
	}
	return true
}

// remember notes the size of a message that was refused. It forgets all if there are too many
// tenants: it notes the ones again that are still stuck.
func remember(sizes map[timer.TenantID]int64, tenant timer.TenantID, size int64) {
	if len(sizes) >= maxStuck {
		clear(sizes)
	}
	sizes[tenant] = size
}

func (s *inboxState) full(tenant timer.TenantID, size int64) bool {
	t := cmp.Or(s.tenants[tenant], new(waitingCount))
	return t.messages >= s.limit.Messages || t.bytes+size > s.limit.Bytes || s.bytes+size > s.limit.TotalBytes
}

// pause says that a message of a tenant failed, and the inbox was full.
func (s *inboxState) pause(tenant timer.TenantID, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	remember(s.paused, tenant, size)
}

// isPaused reports whether messages of a tenant are not to be handled, since one failed that
// the inbox has no space for.
func (s *inboxState) isPaused(tenant func() timer.TenantID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.paused) == 0 {
		return false
	}
	t := tenant()
	size, paused := s.paused[t]
	if paused && !s.full(t, size) {
		delete(s.paused, t)
		return false
	}
	return paused
}

// mayNack reports whether a message of a paused tenant may be nacked, and counts it.
func (s *inboxState) mayNack(bytes int) bool {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.nackedAt) >= nackTime {
		s.nackedAt, s.nacked = now, 0
	}
	s.nacked += 1 + bytes>>14
	return s.nacked <= maxNacks
}

// size returns how many bytes of a message count.
func size(m timer.InboxMessage) int64 { return int64(len(m.Body)) + headerBytes(m.Headers) }

// added counts a message that was put into the inbox, and has it taken when its time has come. A
// search that began before may not have found it.
func (s *inboxState) added(m timer.InboxMessage) {
	s.add(m, 1)
	s.mu.Lock()
	at := s.gates[m.TenantID].until
	s.mu.Unlock()
	if m.Reason != timer.WaitQuota || m.RetryAt.After(at) {
		at = m.RetryAt
	}
	s.sooner(at)
}

// add counts n messages more of the kind.
func (s *inboxState) add(m timer.InboxMessage, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(m.TenantID)
	t.messages += n
	t.bytes += n * size(m)
	s.bytes += n * size(m)
}

// of returns the counts of a tenant, which the caller may change.
func (s *inboxState) of(tenant timer.TenantID) *waitingCount {
	t := s.tenants[tenant]
	if t == nil {
		t = new(waitingCount)
		s.tenants[tenant] = t
	}
	return t
}

// count counts the messages in the inbox, unless it did so a moment ago.
func (s *inboxState) count(ctx context.Context, now time.Time) error {
	if now.Sub(s.counted) < max(countPause, countShare*s.cost) {
		return nil
	}
	counts, err := s.inbox.InboxCounts(ctx, "")
	if err == nil {
		s.counted, s.cost = now, s.clock.Now().Sub(now)
		s.replace(counts)
	}
	return err
}

// replace replaces the counts.
func (s *inboxState) replace(counts []timer.InboxCount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tenants)
	s.bytes = 0
	for _, c := range counts {
		t := s.of(c.TenantID)
		t.messages += c.Messages
		t.bytes += c.Bytes
		s.bytes += c.Bytes
		if c.Reason == timer.WaitFailed {
			t.failed = c
		}
	}
}

// stuckTenants returns the stuck tenants.
func (s *inboxState) stuckTenants() (stuck []StuckTenant) {
	long := s.clock.Now().Add(-failingTime)
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.tenants)
	for tenant := range s.paused { // nothing of it may wait, since others fill the inbox
		all[tenant] = cmp.Or(all[tenant], new(waitingCount))
	}
	for _, tenant := range slices.Sorted(maps.Keys(all)) {
		t := all[tenant]
		size, paused := s.paused[tenant]
		found := StuckTenant{TenantID: tenant, Messages: t.messages, Paused: paused && s.full(tenant, size)}
		if t.failed.Messages > 0 && t.failed.Oldest.Before(long) {
			found.Failing, found.Since = t.failed.Messages, t.failed.Oldest
		}
		size, refused := s.refused[tenant]
		if found.Paused || found.Failing > 0 || t.messages >= s.limit.Messages || refused && t.bytes+size > s.limit.Bytes {
			stuck = append(stuck, found)
		}
	}
	return stuck
}

// fullOf returns the tenant that has most in the inbox, and how many bytes all have, if there
// is no space for messages of any tenant.
func (s *inboxState) fullOf() (tenant timer.TenantID, bytes int64, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inAll == 0 || s.bytes+s.inAll <= s.limit.TotalBytes {
		return "", 0, false
	}
	most := int64(-1)
	for t, w := range s.tenants {
		if w.bytes > most || w.bytes == most && t < tenant {
			tenant, most = t, w.bytes
		}
	}
	return tenant, s.bytes, true
}
