package quota

import (
	"math"
	"time"
)

// A bucket holds the tokens of a [Rate]. It fills with time, up to the burst; the zero value
// is full. It may owe tokens, for a message with more timers than the burst.
// Golang.org/x/time/rate can do neither: it refuses a reservation of more than the burst, and
// a reservation that is canceled after its time returns no tokens.
type bucket struct {
	tokens float64
	at     time.Time // when the bucket held tokens; zero: it is full
}

// slack compensates for rounding.
const slack = 1e-6

// A share is one instance's part of a [Rate].
type share struct {
	rate  float64 // tokens a second
	burst float64 // tokens at most
}

// share returns the part of one of n instances.
func (r Rate) share(n int) share {
	burst := float64(r.Burst)
	if burst == 0 {
		burst = r.PerSecond
	}
	return share{r.PerSecond / float64(n), max(1, math.Floor(burst/float64(n)))}
}

// needed returns how many tokens there must be for n commands.
func (s share) needed(n int) float64 { return min(float64(n), s.burst) }

// time returns how long it takes until that many tokens are added, rounded up to the
// millisecond.
func (s share) time(tokens float64) time.Duration {
	ms := math.Ceil(tokens / s.rate * 1000)
	return time.Duration(min(ms, float64(math.MaxInt64/int64(time.Millisecond)))) * time.Millisecond
}

// fill adds the tokens since the last fill. A clock that was set back adds none.
func (b *bucket) fill(now time.Time, s share) {
	if b.at.IsZero() {
		b.tokens = s.burst
	} else if since := now.Sub(b.at); since > 0 {
		b.tokens = min(b.tokens+s.rate*since.Seconds(), s.burst)
	}
	b.at = now
}

// has returns how many whole tokens there are.
func (b *bucket) has() int { return int(min(b.tokens+slack, math.MaxInt32)) }

// take takes tokens; fewer than 0 are given back.
func (b *bucket) take(n int) { b.tokens -= float64(n) }

// until returns how long it takes until the bucket has that many tokens, rounded up to the
// millisecond.
func (b *bucket) until(tokens float64, s share) time.Duration {
	return s.time(max(0, min(tokens, s.burst)-b.tokens))
}

// full reports whether the bucket can get no more tokens.
func (b *bucket) full(now time.Time, s share) bool {
	if b.at.IsZero() || s.rate == 0 { // a new rate begins with a full bucket
		return true
	}
	b.fill(now, s)
	return b.tokens >= s.burst
}
