package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
)

// A frame is one screen of top.
type frame struct {
	At       string         `json:"at"`
	Totals   admin.Stats    `json:"timers"`   // with how late and how busy the instance is
	NotReady []string       `json:"notReady"` // names of the parts that are red
	Tenants  []admin.Tenant `json:"tenants"`  // the tenants with the most waiting timers
	More     int            `json:"moreTenants,omitempty"`
}

// maxTenants is how many tenants a frame has, so that it fits a screen.
const maxTenants = 10

func newFrame(at time.Time, stats admin.Stats, tenants []admin.Tenant, is admin.Readiness) *frame {
	stats.Unprotected = nil
	slices.SortStableFunc(tenants, func(a, b admin.Tenant) int { return cmp.Compare(b.Scheduled, a.Scheduled) })
	shown := min(len(tenants), maxTenants)
	f := &frame{
		At: envelope.FormatTime(at), Totals: stats,
		NotReady: []string{}, Tenants: tenants[:shown], More: len(tenants) - shown,
	}
	for _, p := range is.Parts {
		if !p.OK {
			f.NotReady = append(f.NotReady, p.Part)
		}
	}
	return f
}

func (f *frame) text() string {
	firing := "timers fire"
	if p := f.Totals.Firing; p != nil && p.Paused {
		firing = "FIRING IS PAUSED " + pauseText(p.Pause)
	} else if p != nil {
		firing = fmt.Sprintf("timers fire, FIRING OF %d TENANTS IS PAUSED", len(p.Tenants))
	}
	ready := "all parts are ready"
	if len(f.NotReady) > 0 {
		ready = "NOT READY: " + strings.Join(f.NotReady, ", ") + " (timer-service health says why)"
	}
	late, rates := "-", "-"
	if p := f.Totals.Pace; p != nil {
		late = fmt.Sprintf("now %s; of %d events in 5 min: p50 ≤ %s, p99 ≤ %s, max %s", lateness(p.LateMS), p.Events, lateness(p.P50MS), lateness(p.P99MS), lateness(p.MaxMS))
		rates = fmt.Sprintf("%.0f commands/s in, %.0f events/s out", p.Accepted, p.Published)
	}
	lines := []string{
		fmt.Sprintf("%s  %s, %s", f.At, firing, ready), "",
		fields("late", late, "throughput", rates), (&totals{f.Totals}).text(), "",
		fmt.Sprintf("%-32s %12s %12s %12s %12s", "TENANT", "SCHEDULED", "REACHED", "EXPIRED", "CANCELED"),
	}
	for _, t := range f.Tenants {
		lines = append(lines, fmt.Sprintf("%-32s %12d %12d %12d %12d", t.TenantID, t.Scheduled, t.Reached, t.Expired, t.Canceled))
	}
	if f.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", f.More))
	}
	return strings.Join(lines, "\n")
}
