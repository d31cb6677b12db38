package quota

import (
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// Options tune a [Keeper]. The zero value is ready to use.
type Options struct {
	Instances func() int // how many share the tenants, this one included; called often, must not block; default 1
	Waiting   int        // commands of all tenants that may wait at the broker at once, for all instances together; default 2048
}

// A Keeper keeps the limits of a [Book]. Make one with [New]. All methods are
// safe for concurrent use. It remembers no more than the tenants of the last
// moments.
type Keeper struct {
	clock timer.Clock
	opt   Options

	looks chan struct{} // holds one for each look at a key's timer

	mu       sync.Mutex
	book     Book
	free     bool // no tenant's fire rate is limited
	accounts map[timer.TenantID]*account
	sweepAt  int // how many accounts there may be before those that nothing is lost with are forgotten
	waiting  waiting
	asked    map[timer.TenantID]int // what the last Allowance said of tenants with a fire rate
}

// An account is what is known of one tenant.
type account struct {
	accept, fire bucket
	held         bool      // it has fired all it may, and waits
	over         time.Time // when it was over a limit last
	live         live
	places       places
}

// maxLooks is how many look at once whether a key has a timer: a flood of commands
// over a quota must leave connections to those that fire.
const maxLooks = 2

// leastAccounts is how many accounts are worth a sweep.
const leastAccounts = 1024

// New returns a Keeper of a book, or what is wrong with that.
func New(book Book, clock timer.Clock, opt Options) (*Keeper, error) {
	if opt.Instances == nil {
		opt.Instances = func() int { return 1 }
	}
	if opt.Waiting <= 0 {
		opt.Waiting = 2048
	}
	k := &Keeper{clock: clock, opt: opt, looks: make(chan struct{}, maxLooks), accounts: make(map[timer.TenantID]*account), sweepAt: leastAccounts}
	if err := k.Use(book); err != nil {
		return nil, err
	}
	return k, nil
}

// Use puts another book in force, from now on, or returns what is wrong with it
// and stays with the one it has. What tenants have used of their rates is not
// forgotten; their timers are counted again.
func (k *Keeper) Use(book Book) error {
	if err := book.Validate(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.book, k.free = book, book.firesFreely()
	for _, a := range k.accounts {
		a.live.doubt() // nobody counts timers of a tenant without a limit
	}
	return nil
}

// Horizon returns how far ahead a timer of the tenant may be due, 0 if its
// quota does not say.
func (k *Keeper) Horizon(tenant timer.TenantID) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.book.Of(tenant).Horizon
}

// instances returns how many share the tenants.
func (k *Keeper) instances() int { return max(1, k.opt.Instances()) }

// account returns the account of a tenant. The lock must be held.
func (k *Keeper) account(tenant timer.TenantID) *account {
	if a, ok := k.accounts[tenant]; ok {
		return a
	}
	if len(k.accounts) >= k.sweepAt {
		k.sweep()
	}
	a := new(account)
	k.accounts[tenant] = a
	return a
}

// sweep forgets accounts that are as good as new.
func (k *Keeper) sweep() {
	now, n := k.clock.Now(), k.instances()
	k.waiting.expire(now)
	for tenant, a := range k.accounts {
		l := k.book.Of(tenant)
		if a.live.idle() && a.places.all == 0 && a.accept.full(now, l.Accept.share(n)) && a.fire.full(now, l.Fire.share(n)) {
			delete(k.accounts, tenant)
		}
	}
	k.sweepAt = max(leastAccounts, 2*len(k.accounts))
}
