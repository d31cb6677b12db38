package admin

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// The chart of lateness has a logarithmic scale with one millisecond at the bottom and
// chartDecades decades. Its box is chartWidth by 100.
const (
	chartDecades = 5
	chartWidth   = 900
	chartTime    = 15 * time.Minute
)

// A chart is two lines, as paths of SVG.
type chart struct {
	Worst, Median string
	Limit         string // height of the objective
	Words         string // description for people who don't see the chart
}

func height(late time.Duration) float64 {
	decades := math.Log10(max(1, late.Seconds()*1000))
	return 100 - 100*min(decades/chartDecades, 1)
}

// draw returns the lines of samples. A line lies at the bottom where nothing was due.
func draw(samples []sample) chart {
	now := samples[len(samples)-1].at
	var worst, median pathLine
	var peak time.Duration
	for i := 1; i < len(samples); i++ {
		s := samples[i]
		x := chartWidth * (1 - now.Sub(s.at).Seconds()/chartTime.Seconds())
		l := lateness(samples[i-1:i+1], 0)
		high := max(l.Max, s.waiting)
		peak = max(peak, high)
		worst.add(x, high, high > 0)
		median.add(x, l.Quantile(0.5), l.Events > 0)
	}
	return chart{
		Worst: worst.text.String(), Median: median.text.String(), Limit: fmt.Sprintf("%.1f", height(objective)),
		Words: "Lateness in the last 15 minutes. The worst was " + span(peak) + ".",
	}
}

// A pathLine begins and ends at the bottom, so that a single point is visible too.
type pathLine struct {
	text strings.Builder
	on   bool
	x    float64
}

func (p *pathLine) add(x float64, late time.Duration, some bool) {
	switch {
	case some && p.on:
		fmt.Fprintf(&p.text, "L%.1f %.1f", x, height(late))
	case some:
		fmt.Fprintf(&p.text, "M%.1f 100V%.1f", x, height(late))
	case p.on:
		fmt.Fprintf(&p.text, "H%.1fV100", (p.x+x)/2)
	}
	p.on, p.x = some, x
}

// The next hour is shown in barCount bars of equal length.
const (
	barCount = 60
	barWidth = time.Minute
)

// A coming shows the timers that are due in the next hour.
type coming struct {
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
func expect(counts []int64, from time.Time) coming {
	c := coming{Most: slices.Max(counts)}
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
