package admin

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// shownTenants is how many tenants the overview names.
const shownTenants = 8

// An overview shows how late the service is, its stuck work, and the next due time.
type overview struct {
	Known   bool // there is a history
	Tone    string
	Verdict string
	Waiting time.Duration
	Limit   time.Duration // of Waiting: the least objective of the tenants that wait
	Recent  app.Lateness  // of the last minutes, and of the timers that wait now
	P50     time.Duration
	P99     time.Duration
	Rates   []pace
	Refused int64 // commands that became dead letters, on this instance since its start

	Red, Notes []Part

	Answered bool // the database answered
	Stats    timer.Stats
	Waits    *Waiting // messages in the inbox; nil if none waits
	Overdue  timer.Overdue
	Failing  []timer.FailingDestination

	Unprotected timer.Unprotected

	Coming hourChart

	Tenants []backlog
	Among   string // the set that the tenants were taken from, if it is not all
}

// A pace says how many items were done in a second of the last minute.
type pace struct{ What, Explained, PerSecond string }

// A backlog is the waiting work of a tenant.
type backlog struct {
	Tenant    timer.TenantID
	Overdue   timer.Overdue
	Held      int64 // by its fire rate, or because it is paused
	Scheduled int64
}

func (p *pages) overview(ctx context.Context, _ *http.Request) (page, error) {
	now := p.now()
	o := &overview{Limit: p.Quotas.Objective("")}
	found := page{Name: "overview.html", Title: "Overview", Nav: "overview", Live: true, Body: o}
	if accessOf(ctx).tenant != "" { // the overview is about all tenants
		return page{Location: p.Prefix + "/timers"}, nil
	}
	err := p.readBacklog(ctx, now, o)
	if err != nil {
		p.log.WarnContext(ctx, "the overview has no numbers from the database", "error", err)
	}
	o.Answered = err == nil
	if p.Unprotected != nil {
		o.Unprotected = p.Unprotected()
	}
	if p.History != nil {
		o.measure(p.History, now, err)
	}
	for _, part := range p.Monitor.Health().Parts {
		switch {
		case part.Red:
			o.Red = append(o.Red, part)
		case part.Reason != "":
			o.Notes = append(o.Notes, part)
		}
	}
	o.judge()
	return found, nil
}

// readBacklog reads the waiting work from the database.
func (p *pages) readBacklog(ctx context.Context, now time.Time, o *overview) (err error) {
	if o.Stats, o.Overdue, err = p.statsOf(ctx, "", now); err != nil {
		return err
	}
	if o.Failing, err = p.Timers.Failing(ctx); err != nil {
		return err
	}
	counts, err := p.Timers.Upcoming(ctx, "", now, barWidth, barCount, timer.MaxUpcoming)
	if err != nil {
		return err
	}
	o.Coming = expect(counts, now)
	if o.Waits, err = p.waitingOf(ctx, ""); err != nil {
		return err
	}
	o.Tenants, o.Among, err = p.behind(ctx, now)
	for i, t := range o.Tenants {
		if objective := p.Quotas.Objective(t.Tenant); i == 0 || objective < o.Limit {
			o.Limit = objective
		}
	}
	return err
}

// behind returns the tenants with most overdue timers among the oldest [timer.MaxPage]
// timers. among says so if there are more timers.
func (p *pages) behind(ctx context.Context, now time.Time) (all []backlog, among string, err error) {
	due, err := p.Timers.List(ctx, timer.Filter{DueBefore: now, Limit: timer.MaxPage})
	if err != nil {
		return nil, "", err
	}
	if due.Next != "" {
		among = "the " + num(timer.MaxPage) + " oldest of them"
	}
	tenants, _ := most(due.Entries, shownTenants)
	for _, t := range tenants {
		counted, overdue, err := p.statsOf(ctx, t, now)
		if err != nil {
			return nil, "", err
		}
		all = append(all, backlog{t, overdue, counted.Held + counted.Paused, counted.Scheduled})
	}
	return all, among, nil
}

// measure reads the history.
func (o *overview) measure(h *History, now time.Time, failed error) {
	samples := h.until(now, o.Stats, failed)
	last := samples[len(samples)-1]
	o.Known, o.Waiting, o.Refused = true, last.waiting, last.refused
	waiting := o.Overdue.Timers + o.Stats.Outbox
	if last.waiting > 0 {
		waiting = max(waiting, 1) // the database does not say how many
	}
	o.Recent = lateness(within(samples, recent), waiting)
	o.P50, o.P99 = o.Recent.Quantile(0.5), o.Recent.Quantile(0.99)
	minute := within(samples, time.Minute)
	took := last.at.Sub(minute[0].at)
	o.Rates = []pace{
		{"accepted", "commands that were stored", perSecond(last.accepted-minute[0].accepted, took)},
		{"fired", "timers that reached their due time", perSecond(last.fired-minute[0].fired, took)},
		{"published", "events that the broker has acknowledged", perSecond(last.late.Events-minute[0].late.Events, took)},
	}
}

// judge sums up the overview in one sentence.
func (o *overview) judge() {
	switch {
	case len(o.Red) > 0:
		parts := all(o.Red, func(p Part) string { return partName(p.Part) })
		o.Tone, o.Verdict = "bad", "Not working: "+strings.Join(parts, ", ")+"."
		if o.Waiting > o.Limit {
			o.Verdict += " The oldest event that should be out has waited for " + span(o.Waiting) + "."
		}
	case !o.Known:
		o.Tone, o.Verdict = "idle", "How late events are is not measured here."
	case o.Waiting > o.Limit:
		o.Tone, o.Verdict = "bad", "Late: the oldest event that should be out has waited for "+span(o.Waiting)+"."
	case o.Recent.Events == 0:
		o.Tone, o.Verdict = "idle", "Nothing was due in the last "+span(recent)+"."
	case o.Recent.Missed*100 > o.Recent.Events:
		o.Tone, o.Verdict = "warn", "On time now. In the last "+span(recent)+" "+num(o.Recent.Missed)+" events were later than their objective, the worst "+span(o.Recent.Max)+" late."
	default:
		o.Tone, o.Verdict = "good", "On time: 99 of 100 events were at the broker within "+span(o.P99)+" of their due time."
	}
	if len(o.Failing) > 0 && o.Tone == "bad" {
		worst := timer.LongestFailing(o.Failing)
		o.Verdict += " " + worst.Destination + " takes no events: " + worst.Reason + "."
	}
}

// instance names this process as the page of the nodes does.
var instance = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	return strings.TrimSpace(host + " process " + strconv.Itoa(os.Getpid()))
})

// needed are the parts without which another part does nothing, although it is well.
var needed = map[string][]string{
	"intake": {"store", "broker", "owner"}, "inbox": {"store", "owner"}, "poller": {"store", "broker", "owner", "clock"}, "forwarder": {"store", "broker", "owner"},
}

// A partState says for people whether a part works.
type partState struct{ Tone, Word string }

// Doing says whether a part works, or waits for one that does not.
func (h Health) Doing(p Part) partState {
	for _, other := range h.Parts {
		if !p.Red && other.Red && slices.Contains(needed[p.Part], other.Part) {
			return partState{"warn", "waits for " + partName(other.Part)}
		}
	}
	switch {
	case p.Red:
		return partState{"bad", "does not work"}
	case p.Advice != "":
		return partState{"warn", "works in part"}
	}
	return partState{"good", "works"}
}
