package quota

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// An Over says which limit a command is over.
type Over struct {
	Policy Policy // what is to become of the command: Delay or DeadLetter
	Detail string // names the limit, for people
	First  bool   // the tenant was over none for a minute
}

// A Grant is the leave to apply one ScheduleTimer. Whoever got it owes it one
// call of Done or Failed. The zero value is the leave of a tenant without
// limits.
type Grant struct {
	keeper  *Keeper
	account *account
	token   bool // it took a token of the accept rate
	place   bool // it counts as a timer that waits
}

// A verdict is what there is to say about a command without asking the store.
type verdict uint8

const (
	granted   verdict = iota
	tooFast           // the accept rate is used up
	tooMany           // as many timers wait as may
	uncounted         // the timers that wait must be counted first
)

// Take returns the leave to apply a ScheduleTimer of the tenant, if it can be
// given without asking the store. It never blocks. If not, [Keeper.Admit]
// knows more.
func (k *Keeper) Take(tenant timer.TenantID) (Grant, bool) {
	g, v := k.take(tenant, true, false)
	return g, v == granted
}

// Admit returns the leave to apply a ScheduleTimer, or which limit it is over.
// To tell, it may look into the store and wait for commands of the tenant that
// are on their way there. It returns an error only if the store does, or if ctx
// ends.
func (k *Keeper) Admit(ctx context.Context, store timer.Reader, key timer.Key) (Grant, *Over, error) {
	for counted := false; ; {
		g, v := k.take(key.TenantID, true, counted)
		switch v {
		case granted:
			return g, nil, nil
		case tooFast:
			return Grant{}, k.over(key.TenantID, v), nil
		case uncounted:
			var err error
			if counted, err = k.count(ctx, store, key.TenantID); err != nil {
				return Grant{}, nil, err
			}
			continue
		}
		again, err := k.waits(ctx, store, key)
		if err != nil {
			return Grant{}, nil, err
		}
		if again { // so it makes no timer more
			if g, v = k.take(key.TenantID, false, false); v == granted {
				return g, nil, nil
			}
		}
		return Grant{}, k.over(key.TenantID, v), nil
	}
}

// waits reports whether the key has a timer that waits.
func (k *Keeper) waits(ctx context.Context, store timer.Reader, key timer.Key) (bool, error) {
	select {
	case k.looks <- struct{}{}:
		defer func() { <-k.looks }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	entry, err := store.Get(ctx, key)
	if errors.Is(err, timer.ErrNotFound) {
		return false, nil
	}
	return err == nil && entry.State == timer.Scheduled, err
}

// take takes a token and, if the command may make a timer more, a place for
// that: both or neither. Fresh says that the timers were counted for it.
func (k *Keeper) take(tenant timer.TenantID, more, fresh bool) (Grant, verdict) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.book.Of(tenant)
	if l.Accept.PerSecond == 0 && l.Live == 0 {
		return Grant{}, granted
	}
	now, n := k.clock.Now(), k.instances()
	a := k.account(tenant)
	g := Grant{keeper: k, account: a}
	if l.Accept.PerSecond > 0 {
		a.accept.fill(now, l.Accept.share(n))
		if a.accept.has() < 1 {
			return Grant{}, tooFast
		}
		g.token = true
	}
	if l.Live > 0 && more {
		if v := a.live.room(l.Live, now, fresh, n); v != granted {
			return Grant{}, v
		}
		a.live.reserved++
		g.place = true
	}
	if g.token {
		a.accept.take(1)
	}
	return g, granted
}

// Done tells what the command did.
func (g Grant) Done(did timer.Outcome) {
	if g.keeper == nil {
		return
	}
	g.keeper.mu.Lock()
	defer g.keeper.mu.Unlock()
	if did == timer.DidSchedule {
		g.account.live.add()
	}
	g.leave()
}

// Failed tells that it is not known what the command did, if anything. It takes
// another leave to try again.
func (g Grant) Failed() {
	if g.keeper == nil {
		return
	}
	g.keeper.mu.Lock()
	defer g.keeper.mu.Unlock()
	if g.token {
		g.account.accept.giveBack()
	}
	g.account.live.doubt()
	g.leave()
}

func (g Grant) leave() {
	if g.place {
		g.account.live.leave()
	}
}

// over says which limit a command of the tenant is over.
func (k *Keeper) over(tenant timer.TenantID, v verdict) *Over {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.book.Of(tenant)
	now, a := k.clock.Now(), k.account(tenant)
	o := &Over{Policy: l.Over, First: a.over.IsZero() || now.Sub(a.over) >= calm}
	a.over = now
	if o.Policy == "" {
		o.Policy = Delay
	}
	if v == tooFast {
		o.Detail = fmt.Sprintf("accept_rate: %s commands a second of tenant %s were accepted, as many as may", number(l.Accept.PerSecond), tenant)
	} else {
		o.Detail = fmt.Sprintf("live_timers: %d timers of tenant %s wait, as many as may", l.Live, tenant)
	}
	return o
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Fewer tells that a timer of the tenant waits no more: it was canceled.
func (k *Keeper) Fewer(tenant timer.TenantID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a, ok := k.accounts[tenant]; ok {
		a.live.fewer = true
	}
}

// Ages of a count.
const (
	believed = time.Second      // of one that says that there are as many as there may be
	recent   = time.Second      // of one that others may have added to, with little room left
	old      = 10 * time.Second // of one that others may have added to, with much room left
)

// calm is how long a tenant must have been within its limits for the next time
// that it is not to be a new one.
const calm = time.Minute
