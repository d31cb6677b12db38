package outbox

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Status says how a [Forwarder] is. It covers the abandoned shards that the forwarder has taken over,
// except Owns and Waiting.
type Status struct {
	Owns    bool          // it has a table, or a shard of one
	Waiting int           // see [Forwarder.Waiting]
	Stuck   time.Duration // how long no read or publish has come to an end; zero if none is under way
	Fails   bool          // a destination at the broker took nothing of the last publish to it
	Failing int           // rows that have failed for ten minutes or longer, in their handler or at the broker
	Failed  error         // the last error of the first of them, with the key of its timer
	Longest string        // which handler has been at work for longest, and on which timer's event; empty if none is at work
	Unmoved error         // why rows could not be deferred, parked or deleted, the last time within a minute; nil if they could
}

// Status returns how the forwarder is. It never waits.
func (f *Forwarder) Status() Status {
	status, now := Status{Longest: f.longest()}, f.clock.Now()
	if s := f.own.Load(); s != nil {
		status.Owns, status.Waiting = true, s.backlog.waiting()
	}
	var first time.Time // when the first row began to fail
	for _, s := range f.senders() {
		status.Stuck = max(status.Stuck, s.stuck())
		status.Fails = status.Fails || s.destinations.fail()
		status.Unmoved = cmp.Or(status.Unmoved, s.unmoved.last(now))
		n, oldest := s.failing.long(now, "")
		status.Failing += n
		if n > 0 && (first.IsZero() || oldest.since.Before(first)) {
			first, status.Failed = oldest.since, oldest.err
		}
	}
	return status
}

// longest names the call of a handler that has been at work for longest.
func (f *Forwarder) longest() string {
	var calls []handlerCall
	for _, h := range f.opt.Handlers {
		calls = append(calls, h.queue.atWork()...)
	}
	if len(calls) == 0 {
		return ""
	}
	c := slices.MinFunc(calls, func(a, b handlerCall) int { return a.since.Compare(b.since) })
	return fmt.Sprintf("%s has been at work on the event of %s for %v", c.Handler, keyOf(c.row), f.clock.Now().Sub(c.since).Round(time.Millisecond))
}

// Failing returns how many events of a tenant have failed for ten minutes or longer, in
// this process.
func (f *Forwarder) Failing(tenant timer.TenantID) int {
	all := 0
	for _, s := range f.senders() {
		n, _ := s.failing.long(f.clock.Now(), tenant)
		all += n
	}
	return all
}

// stuck returns how long no read or publish that is under way has come to an end. It leaves
// out reads from the first row, which may take long.
func (s *sender) stuck() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.landed
	if len(s.inFlight) == 0 {
		since = time.Time{}
	}
	for r := range s.readings {
		if !r.again && (since.IsZero() || r.began.Before(since)) {
			since = r.began
		}
	}
	if since.IsZero() {
		return 0
	}
	return max(0, s.clock.Now().Sub(since))
}

const (
	longFailing = 10 * time.Minute // after which a row that fails is reported
	maxFailing  = 10_000           // rows that are remembered
	forgotten   = time.Hour        // after which a row is forgotten that was not tried again in time
)

// failingRows are the rows that fail, in their handler or at the broker.
type failingRows struct {
	mu   sync.Mutex
	rows map[int64]failure
}

// A failure says since when a row fails, and why.
type failure struct {
	since time.Time // of the first failure in this process
	again time.Time // when it is tried again
	key   timer.Key // whose event it is
	err   error     // of the last failure, with the key
}

// note notes that a row failed and when it is tried again, or with a nil error that it did not
// fail.
func (f *failingRows) note(now, again time.Time, row Row, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, is := f.rows[row.Seq]
	switch {
	case err == nil:
		delete(f.rows, row.Seq)
		return
	case f.rows == nil:
		f.rows = make(map[int64]failure)
	case !is && len(f.rows) >= maxFailing:
		return
	}
	if !is {
		was.since = now
	}
	was.again = again
	was.key = keyOf(row)
	was.err = fmt.Errorf("%s: %w", was.key, err)
	f.rows[row.Seq] = was
}

// keyOf returns the key of the timer of a row.
func keyOf(row Row) timer.Key {
	return timer.Key{TenantID: timer.TenantID(tenant(row)), ServiceCallID: timer.ServiceCallID(row.Message.Metadata.Get(envelope.HeaderServiceCallID))}
}

// long returns how many rows of a tenant, or of all tenants if it is empty, have failed for
// ten minutes or longer, and the failure of the first of them.
func (f *failingRows) long(now time.Time, tenant timer.TenantID) (n int, first failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for seq, row := range f.rows {
		if now.Sub(row.again) > forgotten {
			delete(f.rows, seq)
			continue
		}
		if now.Sub(row.since) < longFailing || tenant != "" && row.key.TenantID != tenant {
			continue
		}
		if n++; n == 1 || row.since.Before(first.since) {
			first = row
		}
	}
	return n, first
}
