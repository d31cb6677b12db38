package history

import (
	"slices"
	"time"
)

// A Lateness says how late things were: of a timer, how long after its due time,
// or after its command was sent if that is later, the broker had the event.
type Lateness struct {
	Count int
	P50MS float64
	P99MS float64
	MaxMS float64
}

// NewLateness sums up, and sorts, latenesses.
func NewLateness(all []time.Duration) Lateness {
	if len(all) == 0 {
		return Lateness{}
	}
	slices.Sort(all)
	rank := func(percent int) float64 {
		n := (len(all)*percent + 99) / 100
		return milliseconds(all[max(n, 1)-1])
	}
	return Lateness{Count: len(all), P50MS: rank(50), P99MS: rank(99), MaxMS: rank(100)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// upAt reports whether the service was up.
func (h History) upAt(t time.Time) bool {
	i, found := slices.BinarySearchFunc(h.Up, t, func(s Span, t time.Time) int { return s.From.Compare(t) })
	if !found {
		i-- // the span that began before t
	}
	return i >= 0 && t.Before(h.Up[i].To)
}
