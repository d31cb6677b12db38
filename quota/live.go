package quota

import (
	"context"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A live is how many timers of a tenant wait, never too low unless other
// instances add some: those that were counted, those that were accepted since,
// and the commands that are on their way to the store. Those that fired or were
// canceled since make it too high, so they are counted again before anybody is
// refused. A tenant that has few is never counted twice.
//
// A command that was on its way while the timers were counted may be among them
// and is added all the same. So whoever is refused waits until none is on its
// way, which takes as long as a commit, since nobody gets a leave meanwhile.
type live struct {
	counted  int64 // timers that waited
	added    int64 // timers that were new since
	reserved int64 // commands on their way
	at       time.Time

	known  bool // they were counted, and nothing happened since that can't be added up
	exact  bool // none was on its way
	fewer  bool // some wait no more since
	unsure bool // a command failed since, so nobody knows what it did

	counting chan struct{} // closed when whoever counts is done; nil while nobody does
	quiet    chan struct{} // closed when none is on its way; nil while nobody waits for it
}

// all is how many wait at most.
func (l *live) all() int64 { return l.counted + l.added + l.reserved }

// room reports whether one more may wait. Fresh says that they were counted for
// the one who asks. Of several instances each takes no more than its part of the
// room there was, and then counts again.
func (l *live) room(limit int64, now time.Time, fresh bool, instances int) verdict {
	age := now.Sub(l.at)
	full := l.all() >= limit
	switch {
	case !l.known:
		return uncounted
	case full && l.exact && l.reserved == 0 && (fresh || !l.fewer && age < believed):
		return tooMany
	case full:
		return uncounted
	case instances == 1:
		return granted
	case age >= old, age >= recent && l.all() >= limit/2:
		return uncounted
	case !fresh && l.added+l.reserved >= max(1, (limit-l.counted)/int64(instances)):
		return uncounted
	}
	return granted
}

// add notes that one more waits.
func (l *live) add() {
	l.added++
	l.exact = false
}

// doubt notes that nobody knows whether one more waits.
func (l *live) doubt() { l.known, l.unsure = false, true }

// leave notes that a command is not on its way any more.
func (l *live) leave() {
	if l.reserved--; l.reserved == 0 && l.quiet != nil {
		close(l.quiet)
		l.quiet = nil
	}
}

// idle reports whether nothing is lost if it is forgotten.
func (l *live) idle() bool { return l.reserved == 0 && l.counting == nil && l.quiet == nil }

// count counts the timers of a tenant and reports true, or else waits for whoever
// is at it, or for what must happen before.
func (k *Keeper) count(ctx context.Context, store timer.Reader, tenant timer.TenantID) (counted bool, err error) {
	k.mu.Lock()
	l := &k.account(tenant).live
	wait := l.counting
	if wait == nil && l.known && l.reserved > 0 && l.all() >= k.book.Of(tenant).Live {
		if l.quiet == nil {
			l.quiet = make(chan struct{})
		}
		wait = l.quiet
	}
	if wait != nil {
		k.mu.Unlock()
		select {
		case <-wait:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	l.counting = make(chan struct{})
	quiet, before := l.reserved == 0, l.added
	l.fewer, l.unsure = false, false
	k.mu.Unlock()

	counts, err := store.Counts(ctx, tenant)

	k.mu.Lock()
	defer k.mu.Unlock()
	close(l.counting)
	l.counting = nil
	if err != nil {
		return false, err
	}
	l.exact = quiet && l.reserved == 0 && l.added == before
	l.counted, l.known, l.at = counts.Scheduled, !l.unsure, k.clock.Now()
	l.added -= before
	return true, nil
}
