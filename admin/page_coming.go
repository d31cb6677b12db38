package admin

import (
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// The next hour is shown in barCount bars of equal length.
const (
	barCount = 60
	barWidth = time.Minute
)

// An hourChart shows the timers that are due in the next hour.
type hourChart struct {
	Total int64
	More  bool   // counting stopped at a limit, so there are more
	Most  int64  // in the highest bar
	Bars  []bar  // without the empty ones
	Words string // description for people who don't see the bars
	Ticks []string
}

// A bar shows how many timers are due in a minute.
type bar struct {
	X, Height, Top float64
	Count          int64
	Title          string
}

// expect returns the bars of counts.
func expect(counts []int64, from time.Time) hourChart {
	c := hourChart{Most: slices.Max(counts)}
	busiest := ""
	for i, n := range counts {
		begins := from.Add(time.Duration(i) * barWidth)
		if i%(barCount/4) == 0 {
			c.Ticks = append(c.Ticks, begins.UTC().Format("15:04"))
		}
		if n == 0 {
			continue
		}
		text := num(n)
		if n >= timer.MaxUpcoming {
			c.More, text = true, text+" or more"
		}
		high := max(100*float64(n)/float64(c.Most), 2)
		c.Bars = append(c.Bars, bar{X: float64(i) + 0.1, Height: high, Top: 100 - high, Count: n, Title: text + " from " + clock(begins)})
		if n == c.Most && busiest == "" {
			busiest = text + " from " + clock(begins)
		}
		c.Total += n
	}
	c.Ticks = append(c.Ticks, from.Add(barCount*barWidth).UTC().Format("15:04"))
	if c.Words = "no timer"; c.Total > 0 {
		c.Words = count(c.Total, "timer") + map[bool]string{true: " or more"}[c.More] + "; the busiest minute has " + busiest
	}
	return c
}
