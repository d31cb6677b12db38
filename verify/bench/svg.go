package bench

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Size of a picture and of the frame in it, in pixels.
const (
	width, height        = 720, 400
	left, right          = 70, 20
	top, bottom          = 30, 60
	frameWide, frameHigh = width - left - right, height - top - bottom
)

var colors = [...]string{"#1b6ac9", "#c9441b", "#2c8a3d", "#8a2c87", "#a67c00", "#444444"}

// Draw writes a picture (SVG) of how late timers were: from left to right ever
// rarer cases, each step ten times as rare, upwards the lateness in
// milliseconds. Results without lateness are left out.
func Draw(out io.Writer, title string, results ...Result) error {
	lowest, highest, rarest := math.Inf(1), 0.0, 2.0
	for _, r := range results {
		if r.Lateness == nil {
			continue
		}
		for _, p := range r.Lateness.Curve {
			lowest, highest = min(lowest, p.MS), max(highest, p.MS)
			rarest = max(rarest, -math.Log10(1-p.Quantile))
		}
	}
	if highest == 0 {
		return fmt.Errorf("nothing to draw: no result has a lateness")
	}
	low, high := math.Floor(math.Log10(lowest)), math.Ceil(math.Log10(highest))
	x := func(quantile float64) float64 { return left - math.Log10(1-quantile)/rarest*frameWide }
	y := func(ms float64) float64 { return top + (high-math.Log10(ms))/max(high-low, 1)*frameHigh }

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text := func(x, y float64, anchor, format string, args ...any) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, escape(fmt.Sprintf(format, args...)))
	}
	line := func(x1, y1, x2, y2 float64) {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#ddd"/>`+"\n", x1, y1, x2, y2)
	}
	text(left, 18, "start", "%s", title)
	for e := low; e <= high; e++ {
		at := y(math.Pow(10, e))
		line(left, at, width-right, at)
		text(left-6, at+4, "end", "%g ms", math.Pow(10, e))
	}
	for n := 0.0; n <= rarest; n++ {
		q := 1 - math.Pow(10, -n)
		line(x(q), top, x(q), height-bottom)
		text(x(q), height-bottom+16, "middle", "%.6g %%", 100*q)
	}
	n := 0
	for _, r := range results {
		if r.Lateness == nil {
			continue
		}
		var path strings.Builder
		for i, p := range r.Lateness.Curve {
			fmt.Fprintf(&path, "%c%.1f %.1f", "LM"[btoi(i == 0)], x(p.Quantile), y(p.MS))
		}
		color := colors[n%len(colors)]
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), color)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/>`+"\n", left+10, top+8+16*n, color)
		text(left+26, float64(top+17+16*n), "start", "%d timers/s; %s", r.Rate, r.Setup)
		n++
	}
	text(left+frameWide/2, height-14, "middle", "part of the timers that was at most so late")
	b.WriteString("</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
