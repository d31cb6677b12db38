package quota

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A live is how many timers of a tenant wait, never too low unless other
// instances add some: those that were counted, those that were added since, and
// those that commands on their way to the store may add. Those that fired or were
// canceled since make it too high, so they are counted again before a command is
// refused. A tenant that has few is counted once.
//
// A command that was on its way while the timers were counted may be among them
// and is added all the same. So before a command is refused it waits until none is
// on its way, which takes as long as a commit, since none is admitted meanwhile.
type live struct {
	counted  int64 // timers that waited
	added    int64 // timers that were new since
	reserved int64 // timers that commands on their way may add
	at       time.Time

	known       bool // they were counted, and nothing unknown happened since
	exact       bool // none was on its way
	decremented bool // fewer wait since
	failed      bool // a command failed since, with an unknown outcome

	counting chan struct{} // closed when the count is done; nil while there is none
	quiet    chan struct{} // closed when none is on its way; nil while no command waits for it
}

// Ages of a count.
const (
	fullAge = time.Second      // of one that says that there are as many as there may be
	halfAge = time.Second      // of one that other instances may have added to, above half of the limit
	lowAge  = 10 * time.Second // of one that other instances may have added to, below half of the limit
)

// all is how many wait at most.
func (l *live) all() int64 { return l.counted + l.added + l.reserved }

// check reports whether n more may wait. Fresh says that they were counted for
// the command. Of several instances each takes no more than its part of what was
// left, and then counts again.
func (l *live) check(n, limit int64, now time.Time, fresh bool, instances int) verdict {
	age := now.Sub(l.at)
	full := l.all()+n > limit
	switch {
	case !l.known:
		return uncounted
	case full && l.exact && l.reserved == 0 && (fresh || !l.decremented && age < fullAge):
		return tooMany
	case full:
		return uncounted
	case instances == 1:
		return granted
	case age >= lowAge, age >= halfAge && l.all() >= limit/2:
		return uncounted
	case !fresh && l.added+l.reserved+n > max(n, (limit-l.counted)/int64(instances)):
		return uncounted
	}
	return granted
}

// add notes that one more waits.
func (l *live) add() {
	l.added++
	l.exact = false
}

// invalidate notes that it is not known how many wait.
func (l *live) invalidate() { l.known, l.failed = false, true }

// end notes that n are not on their way any more.
func (l *live) end(n int64) {
	if l.reserved -= n; l.reserved == 0 && l.quiet != nil {
		close(l.quiet)
		l.quiet = nil
	}
}

// idle reports whether nothing is lost if it is deleted.
func (l *live) idle() bool { return l.reserved == 0 && l.counting == nil && l.quiet == nil }

// count counts the timers of a tenant and reports true, or else waits for the
// count that is at work, or for the commands that are on their way, if there would
// be too many with n more.
func (l *Limiter) count(ctx context.Context, store timer.Reader, tenant timer.TenantID, n int) (counted bool, err error) {
	l.mu.Lock()
	live := &l.usage(tenant).live
	wait := live.counting
	if wait == nil && live.known && live.reserved > 0 && live.all()+int64(n) > l.config.Of(tenant).Live {
		if live.quiet == nil {
			live.quiet = make(chan struct{})
		}
		wait = live.quiet
	}
	if wait != nil {
		l.mu.Unlock()
		select {
		case <-wait:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	live.counting = make(chan struct{})
	idle, before := live.reserved == 0, live.added
	live.decremented, live.failed = false, false
	l.mu.Unlock()

	counts, err := store.Counts(ctx, tenant)

	l.mu.Lock()
	defer l.mu.Unlock()
	close(live.counting)
	live.counting = nil
	if err != nil {
		return false, err
	}
	live.exact = idle && live.reserved == 0 && live.added == before
	live.counted, live.known, live.at = counts.Scheduled, !live.failed, l.clock.Now()
	live.added -= before
	return true, nil
}
