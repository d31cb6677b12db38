package traffic

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// A ring remembers the last things added to it.
type ring[T any] struct {
	kept []T
	next int
}

func (r *ring[T]) add(v T) {
	if len(r.kept) < remembered {
		r.kept = append(r.kept, v)
		return
	}
	r.kept[r.next] = v
	r.next = (r.next + 1) % remembered
}

// any returns one of them; false if there is none.
func (r *ring[T]) any(random *rand.Rand) (v T, ok bool) {
	if len(r.kept) == 0 {
		return v, false
	}
	return r.kept[random.IntN(len(r.kept))], true
}

// newTimer makes up a key. Some service call ids are those of other tenants.
func (g *Generator) newTimer() *timer {
	tenant := g.tenants[g.rand.IntN(len(g.tenants))]
	call := fmt.Sprintf("sc-%d", g.made)
	switch g.rand.IntN(10) {
	case 0:
		call = fmt.Sprintf("Order:%d.a_b-%s", g.made, g.word(100))
	case 1:
		if other, ok := g.timers.any(g.rand); ok && !g.keys[history.Key{Tenant: tenant, Call: other.Call}] {
			call = other.Call
		}
	}
	t := &timer{Key: history.Key{Tenant: tenant, Call: call}}
	g.keys[t.Key] = true
	g.timers.add(t)
	return t
}

// pick returns a timer that is not due yet, or nil.
func (g *Generator) pick(now time.Time) *timer {
	const tries = 20
	for range tries {
		if t, ok := g.timers.any(g.rand); ok && t.dueAt.After(now) {
			return t
		}
	}
	return nil
}

// newer returns a version that is newer than v, some by their id alone.
func (g *Generator) newer(v history.Version, now time.Time) history.Version {
	n := history.Version{TimestampMS: max(now.UnixMilli(), v.TimestampMS), ID: g.id()}
	if g.rand.IntN(8) == 0 && len(v.ID) < 60 {
		n = history.Version{TimestampMS: v.TimestampMS, ID: v.ID + "~"}
	}
	if n.Compare(v) <= 0 {
		n.TimestampMS = v.TimestampMS + 1
	}
	return n
}

// id makes up the id of a command: a UUID, or another text that is allowed.
func (g *Generator) id() string {
	if g.rand.IntN(2) == 0 {
		a, b := g.rand.Uint64(), g.rand.Uint64()
		return fmt.Sprintf("%08x-%04x-7%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0xfff, b&0xffffffffffff)
	}
	const odd = `!"#$%&'()*+,-./:;<=>?@[\]^_{|}` + "`~"
	return fmt.Sprintf("%s%c%d", g.word(12), odd[g.rand.IntN(len(odd))], g.made)
}

// word makes up letters and digits.
func (g *Generator) word(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	w := make([]byte, n)
	for i := range w {
		w[i] = letters[g.rand.IntN(len(letters))]
	}
	return string(w)
}

// upTo returns a duration from zero to below d.
func (g *Generator) upTo(d time.Duration) time.Duration {
	return time.Duration(g.rand.Int64N(int64(d)))
}
