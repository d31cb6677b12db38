package quota

import (
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A broker has one line of commands for all tenants, and only so many of them
// may be in flight: what waits there for its next delivery takes the place of
// others' commands. So no more than half of that may wait, and of that no tenant
// has all: one more may wait while its tenant has fewer places than are free. One
// tenant alone gets half, two get a third each, and there is always room for the
// next.
//
// A place is free again when its command was delivered again, which is noticed,
// or should have been, which is not: another instance may have got it.

// stages are the first, the second, and every later wait.
const stages = 3

// waitsFor are how long a broker waits at most before it delivers a command
// again, see broker.RedeliveryDelay.
var waitsFor = [stages]time.Duration{1200 * time.Millisecond, 6 * time.Second, 30 * time.Second}

// places are those that commands of one tenant have.
type places struct {
	all  int
	at   [stages]int // those that hold one
	gone [stages]int // those that gave theirs up before the time, and are still in the queue
}

// waiting are the places of all tenants.
type waiting struct {
	all   int
	queue [stages][]place // by the time when they end
}

type place struct {
	account *account
	ends    time.Time
}

// Delay reports whether a command that is over a quota may wait at the broker for
// its next delivery, after so many. If not, there is only the dead letter.
func (k *Keeper) Delay(tenant timer.TenantID, deliveries int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	k.waiting.expire(now)
	a := k.account(tenant)
	if !k.waiting.leave(a, deliveries) && a.places.all >= k.opt.Waiting/k.instances()-k.waiting.all {
		return false
	}
	stage := min(max(deliveries, 1), stages) - 1
	a.places.all++
	a.places.at[stage]++
	k.waiting.all++
	k.waiting.queue[stage] = append(k.waiting.queue[stage], place{a, now.Add(waitsFor[stage])})
	return true
}

// Arrived tells that a command was accepted that had been delivered so many
// times, so it waits no more.
func (k *Keeper) Arrived(tenant timer.TenantID, deliveries int) {
	if deliveries < 2 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if a, ok := k.accounts[tenant]; ok {
		k.waiting.leave(a, deliveries)
	}
}

// leave gives up the place of a command that had been delivered so many times,
// this one included. It returns false if it had none.
func (w *waiting) leave(a *account, deliveries int) bool {
	stage := min(deliveries-1, stages) - 1
	if stage < 0 || a.places.at[stage] == 0 {
		return false
	}
	a.places.gone[stage]++
	w.end(a, stage)
	return true
}

func (w *waiting) end(a *account, stage int) {
	a.places.at[stage]--
	a.places.all--
	w.all--
}

// expire ends the places whose time has come.
func (w *waiting) expire(now time.Time) {
	for stage := range w.queue {
		for len(w.queue[stage]) > 0 && !w.queue[stage][0].ends.After(now) {
			a := w.queue[stage][0].account
			w.queue[stage][0] = place{}
			w.queue[stage] = w.queue[stage][1:]
			if a.places.gone[stage] > 0 {
				a.places.gone[stage]--
			} else {
				w.end(a, stage)
			}
		}
	}
}
