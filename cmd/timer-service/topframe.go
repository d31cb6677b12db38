package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
)

// A frame is what top shows at once. Of figures of lateness -1 is more than is measured.
type frame struct {
	At         string         `json:"at"`
	Paused     string         `json:"firingPausedSince,omitempty"`
	PausedBy   string         `json:"firingPausedBy,omitempty"`
	LateMS     int64          `json:"lateNowMs"` // of the oldest that is due and not delivered
	P50MS      int64          `json:"latenessP50Ms"`
	P99MS      int64          `json:"latenessP99Ms"`
	MaxMS      int64          `json:"latenessMaxMs"`
	Events     uint64         `json:"events"`  // these are about so many
	SecondsOf  int64          `json:"seconds"` // in so many seconds; 0 is since the start of the service
	CommandsPS *float64       `json:"commandsPerSecond,omitempty"`
	EventsPS   *float64       `json:"eventsPerSecond,omitempty"`
	Totals     admin.Stats    `json:"timers"`
	NotReady   []string       `json:"notReady"` // parts that are red
	Tenants    []admin.Tenant `json:"tenants"`  // those with the most timers that wait
	More       int            `json:"moreTenants,omitempty"`
}

// maxTenants is how many tenants a frame has.
const maxTenants = 50

// newFrame returns the frame of a sample, of the first one before it, and of the last one
// before it; nil if there is none.
func newFrame(first, last, s *sample) *frame {
	f := &frame{At: envelope.FormatTime(s.at), Paused: s.pause.Since, PausedBy: s.pause.By, NotReady: []string{}, Totals: s.stats}
	f.Totals.Unprotected = nil
	for _, due := range []string{f.Totals.OldestOverdue, f.Totals.OldestDue} {
		if due != "" {
			f.LateMS = max(f.LateMS, s.at.Sub(parseTime(due)).Milliseconds())
		}
	}
	if last != nil {
		f.SecondsOf = max(1, int64(s.at.Sub(first.at).Round(time.Second)/time.Second))
		passed := max(s.at.Sub(last.at).Seconds(), 1e-3)
		rate := func(name string) *float64 { return new(max(0, s.count(name)-last.count(name)) / passed) }
		f.CommandsPS, f.EventsPS = rate("timer_commands_received_total"), rate("timer_events_published_total")
	}
	bounds, events := quantiles(first, s, 0.5, 0.99, 1)
	f.P50MS, f.P99MS, f.MaxMS, f.Events = bounds[0], bounds[1], bounds[2], events
	for _, m := range s.metrics["timer_ready_ratio"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "part" && m.GetGauge().GetValue() == 0 {
				f.NotReady = append(f.NotReady, l.GetValue())
			}
		}
	}
	f.Tenants = append([]admin.Tenant{}, s.tenants...)
	slices.SortStableFunc(f.Tenants, func(a, b admin.Tenant) int { return int(b.Scheduled - a.Scheduled) })
	f.Tenants = f.Tenants[:min(len(f.Tenants), maxTenants)]
	f.More = len(s.tenants) - len(f.Tenants)
	return f
}

func (f *frame) text() string {
	firing := "timers fire"
	if f.Paused != "" {
		firing = "FIRING IS PAUSED since " + when(f.Paused) + orBy(f.PausedBy)
	}
	ready := "all parts are ready"
	if len(f.NotReady) > 0 {
		ready = "NOT READY: " + strings.Join(f.NotReady, ", ") + " (timer-service health says why)"
	}
	about := "since the start"
	if f.SecondsOf > 0 {
		about = fmt.Sprintf("in %d s", f.SecondsOf)
	}
	rates := "-"
	if f.CommandsPS != nil {
		rates = fmt.Sprintf("%.0f commands/s in, %.0f events/s out", *f.CommandsPS, *f.EventsPS)
	}
	late := fmt.Sprintf("now %s; of %d events %s: p50 %s, p99 %s, max %s", lateness(f.LateMS), f.Events, about, atMost(f.P50MS), atMost(f.P99MS), atMost(f.MaxMS))
	lines := []string{
		fmt.Sprintf("%s  %s, %s", f.At, firing, ready), "",
		fields("late", late, "throughput", rates), (&totals{f.Totals}).text(), "",
		fmt.Sprintf("%-32s %12s %12s %12s", "TENANT", "SCHEDULED", "REACHED", "CANCELED"),
	}
	for _, t := range f.Tenants {
		lines = append(lines, fmt.Sprintf("%-32s %12d %12d %12d", t.TenantID, t.Scheduled, t.Reached, t.Canceled))
	}
	if f.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", f.More))
	}
	return strings.Join(lines, "\n")
}

func orBy(who string) string {
	if who == "" {
		return ""
	}
	return " by " + printable(who)
}

// atMost returns a bound for people.
func atMost(ms int64) string {
	switch {
	case ms < 0:
		return "more than is measured"
	case ms == 0:
		return "-"
	}
	return "≤ " + lateness(ms)
}
