package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

type topCmd struct {
	Once     bool          `help:"Print one frame and end, as it does if the output is no terminal."`
	Interval time.Duration `default:"1s" help:"How long until the next frame."`
}

// Help is printed below the summary.
func (topCmd) Help() string {
	return `Shows a running service, every second: how late events are for their consumers, what is
overdue, how many commands and events pass a second, the parts that are not ready, and the
tenants that have the most timers. Ctrl-C ends it. Lateness is that since the first frame;
in a single frame, and in the first, it is that since the start of the service.

Examples:

    timer-service top
    timer-service top --server http://timers.example:8080
    timer-service top --once -o json`
}

// Run shows frames until ctx ends.
func (c *topCmd) Run(ctx context.Context, e *env) error {
	if c.Interval < 100*time.Millisecond {
		return wrong("top", "--interval must be 100ms or more")
	}
	client, err := e.service(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.Once || e.out.json || !isTerminal(e.out.w) {
		s, err := sampleOf(ctx, client, e.now())
		if err == nil {
			e.out.print(newFrame(nil, nil, s))
		}
		return err
	}
	fmt.Fprint(e.out.w, "\x1b[?1049h\x1b[?25l") // another screen, no cursor
	defer fmt.Fprint(e.out.w, "\x1b[?25h\x1b[?1049l")
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for first, last := (*sample)(nil), (*sample)(nil); ctx.Err() == nil && e.out.failed() == nil; {
		s, err := sampleOf(ctx, client, e.now())
		text := fmt.Sprintf("%s\n\n%s\nIt is asked again.", envelope.FormatTime(e.now()), redact(fmt.Sprint(err)))
		if err == nil {
			text = newFrame(first, last, s).text()
			first, last = cmp.Or(first, s), s
		}
		width, height := terminalSize(e.out.w)
		fmt.Fprint(e.out.w, "\x1b[H"+fit(text, width, height)+"\x1b[J")
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return e.out.failed()
}

// fit cuts a text to what a screen shows, and clears the rest of each line.
func fit(text string, width, height int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines[:min(len(lines), height)] {
		lines[i] = short(line, width) + "\x1b[K"
	}
	return strings.Join(lines[:min(len(lines), height)], "\r\n")
}

// A sample is what a service is at a time.
type sample struct {
	at      time.Time
	stats   admin.Stats
	pause   admin.Firing
	tenants []admin.Tenant
	metrics map[string]*dto.MetricFamily
}

// sampleOf asks a service.
func sampleOf(ctx context.Context, c *apiclient.Client, now time.Time) (s *sample, err error) {
	s = &sample{at: now}
	if s.stats, err = apiclient.Get[admin.Stats](ctx, c, apiclient.Path("stats")); err != nil {
		return nil, err
	}
	if s.pause, err = apiclient.Get[admin.Firing](ctx, c, apiclient.Path("firing")); err != nil {
		return nil, err
	}
	page, err := tenantsOf(ctx, c, "", timer.MaxPage)
	if err != nil {
		return nil, err
	}
	s.tenants = page.Tenants
	text, err := c.Send(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	s.metrics, err = parser.TextToMetricFamilies(bytes.NewReader(text))
	return s, err
}

// count returns the sum of a counter.
func (s *sample) count(name string) (sum float64) {
	if s != nil {
		for _, m := range s.metrics[name].GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}

// lateness returns how many events were published up to each bound, in seconds.
func (s *sample) lateness() (counts map[float64]uint64) {
	counts = make(map[float64]uint64)
	if s != nil {
		for _, m := range s.metrics["timer_lateness_published_seconds"].GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				counts[b.GetUpperBound()] += b.GetCumulativeCount()
			}
		}
	}
	return counts
}

// quantiles returns the bounds, in milliseconds, below which the parts of the events are
// that were published between two samples, and how many there were. A bound of -1 is
// beyond the last one.
func quantiles(before, now *sample, parts ...float64) (bounds []int64, events uint64) {
	was, is := before.lateness(), now.lateness()
	var limits []float64
	for limit := range is {
		limits = append(limits, limit)
		if n := is[limit] - min(was[limit], is[limit]); n > events {
			events = n
		}
	}
	slices.Sort(limits)
	for _, part := range parts {
		bound := int64(0)
		for _, limit := range limits {
			if n := is[limit] - min(was[limit], is[limit]); events > 0 && float64(n) >= part*float64(events) {
				bound = -1
				if limit < 1e9 {
					bound = int64(limit * 1000)
				}
				break
			}
		}
		bounds = append(bounds, bound)
	}
	return bounds, events
}

// Size of a terminal that does not say its own.
const defaultWidth, defaultHeight = 80, 24
