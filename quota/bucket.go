package quota

import (
	"math"
	"time"
)

// A bucket holds the tokens of a [Rate]. It fills with time, up to the burst;
// the zero value is full. Golang.org/x/time/rate has no way to give a token
// back that leaves the burst alone.
type bucket struct {
	tokens float64
	at     time.Time // when it held them; zero: it is full
}

// slack makes up for what is lost in rounding.
const slack = 1e-6

// A share is the part of a [Rate] that one instance has.
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

// fill adds what has come since it was filled last. A clock that was set back
// adds nothing.
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

// take takes tokens, as far as there are any.
func (b *bucket) take(n int) { b.tokens = max(0, b.tokens-float64(n)) }

// giveBack puts a token back.
func (b *bucket) giveBack() { b.tokens++ }

// until returns how long it takes until there are so many tokens, rounded up to
// the millisecond.
func (b *bucket) until(tokens float64, s share) time.Duration {
	missing := min(tokens, s.burst) - b.tokens
	if missing <= 0 {
		return 0
	}
	ms := math.Ceil(missing / s.rate * 1000)
	return time.Duration(min(ms, float64(math.MaxInt64/int64(time.Millisecond)))) * time.Millisecond
}

// full reports whether nothing is lost if the bucket is forgotten.
func (b *bucket) full(now time.Time, s share) bool {
	if b.at.IsZero() || s.rate == 0 { // the next rate begins with a full one
		return true
	}
	b.fill(now, s)
	return b.tokens >= s.burst
}
