package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/timer"
)

// shownTenants is how many tenants the overview names.
const shownTenants = 8

// An overview says how late the service is, what is stuck, and what is due next.
type overview struct {
	Known   bool // there is a history
	Tone    string
	Verdict string
	Waiting time.Duration
	Recent  app.Lateness // of the last minutes, and of the timers that wait now
	P50     time.Duration
	P99     time.Duration
	Budget  budget
	Chart   chart
	Rates   []pace
	Refused int64 // commands that became dead letters, on this instance since its start

	Red, Notes []Part

	Answered bool // the database answered
	Stats    timer.Stats
	Overdue  timer.Overdue

	Unprotected timer.Unprotected

	Coming coming

	Tenants []backlog
	ByCount bool   // the tenants shown have the most timers, since nothing is overdue
	Among   string // the set that the tenants were taken from, if it is not all
}

// A budget counts the events that were later than the objective, and compares them with the
// number that may be.
type budget struct {
	Late, Events int64
	Used         float64 // 1 is all
	Percent      string
	Width        float64 // in percent
}

// A pace says how many items were done in the last minute.
type pace struct {
	What, Explained string
	N               int64
	Took            time.Duration
}

// PerSecond returns the rate for people.
func (p pace) PerSecond() string { return perSecond(p.N, p.Took) }

// A backlog is the waiting work of a tenant.
type backlog struct {
	Tenant    timer.TenantID
	Overdue   timer.Overdue
	Held      int64 // by its fire rate, or because it is paused
	Scheduled int64
}

func (p *pages) overview(ctx context.Context, _ *http.Request) (page, error) {
	now := time.Now()
	o := &overview{}
	found := page{Name: "overview.html", Title: "Overview", Nav: "overview", Live: true, Body: o}
	if accessOf(ctx).tenant != "" { // the overview is about all tenants
		return page{Location: p.opt.Prefix + "/timers"}, nil
	}
	err := p.readBacklog(ctx, now, o)
	if err != nil {
		p.log.WarnContext(ctx, "the overview has no numbers from the database", "error", err)
	}
	o.Answered = err == nil
	if p.opt.Unprotected != nil {
		o.Unprotected = p.opt.Unprotected()
	}
	if p.opt.History != nil {
		o.Chart, o.Refused = draw(o.measure(p.opt.History, now, err)), refused(p.opt.History.counters)
	}
	for _, part := range p.opt.Monitor.Health().Parts {
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

// readBacklog reads what waits in the database.
func (p *pages) readBacklog(ctx context.Context, now time.Time, o *overview) (err error) {
	if o.Stats, err = p.opt.Timers.Stats(ctx, ""); err != nil {
		return err
	}
	if o.Overdue, err = p.opt.Timers.Overdue(ctx, "", now); err != nil {
		return err
	}
	counts, err := p.opt.Timers.Upcoming(ctx, "", now, barWidth, barCount)
	if err != nil {
		return err
	}
	o.Coming = expect(counts, now)
	o.Tenants, o.Among, err = p.behind(ctx, now)
	if o.ByCount = len(o.Tenants) == 0; o.ByCount && err == nil {
		o.Tenants, o.Among, err = p.largest(ctx)
	}
	return err
}

// Events returns the number of events as text. Waiting events are counted up to a limit, and
// then estimated from the time that the oldest has waited.
func (o *overview) Events(n int64) string {
	text := count(n, "event")
	if o.Overdue.Timers >= timer.MaxOverdue {
		text = num(n) + "+ events"
	}
	if n > 0 && o.Waiting > objective {
		text = "about " + text
	}
	return text
}

// behind returns the tenants with most overdue timers among the oldest [timer.MaxPage]
// timers. among says so if there are more timers.
func (p *pages) behind(ctx context.Context, now time.Time) (all []backlog, among string, err error) {
	due, err := p.opt.Timers.List(ctx, timer.Filter{DueBefore: now, Limit: timer.MaxPage})
	if err != nil {
		return nil, "", err
	}
	if due.Next != "" {
		among = "the " + num(timer.MaxPage) + " oldest of them"
	}
	tenants, _ := most(due.Entries, shownTenants)
	for _, t := range tenants {
		overdue, err := p.opt.Timers.Overdue(ctx, t, now)
		if err != nil {
			return nil, "", err
		}
		counted, err := p.opt.Timers.Stats(ctx, t)
		if err != nil {
			return nil, "", err
		}
		all = append(all, backlog{t, overdue, counted.Held + counted.Paused, counted.Scheduled})
	}
	return all, among, nil
}

// largest returns the tenants with most timers among the first [timer.MaxPage] tenants. among
// says so if there are more tenants.
func (p *pages) largest(ctx context.Context) (all []backlog, among string, err error) {
	tenants, err := p.opt.Timers.Tenants(ctx, "", timer.MaxPage)
	if len(tenants) == timer.MaxPage {
		among = "the first " + num(timer.MaxPage) + " tenants by name"
	}
	slices.SortStableFunc(tenants, func(a, b timer.TenantCounts) int { return cmp.Compare(b.Scheduled, a.Scheduled) })
	for _, t := range tenants[:min(len(tenants), shownTenants)] {
		if t.Scheduled > 0 {
			all = append(all, backlog{Tenant: t.TenantID, Scheduled: t.Scheduled})
		}
	}
	return all, among, err
}

// measure reads the history, and returns its samples.
func (o *overview) measure(h *History, now time.Time, failed error) (samples []sample) {
	samples = h.until(now, o.Stats, failed)
	last := samples[len(samples)-1]
	o.Known, o.Waiting = true, last.waiting
	waiting := o.Overdue.Timers + o.Stats.Outbox
	if last.waiting > 0 {
		waiting = max(waiting, 1) // the database does not say how many
	}
	o.Recent = lateness(within(samples, recent), waiting)
	o.P50, o.P99 = o.Recent.Quantile(0.5), o.Recent.Quantile(0.99)
	o.Budget = spent(lateness(samples, waiting))
	minute := within(samples, time.Minute)
	took := last.at.Sub(minute[0].at)
	o.Rates = []pace{
		{"accepted", "commands that were stored", last.accepted - minute[0].accepted, took},
		{"fired", "timers that reached their due time", last.fired - minute[0].fired, took},
		{"published", "events that the broker has acknowledged", last.late.Events - minute[0].late.Events, took},
	}
	return samples
}

// spent returns how much of the objective's budget is used.
func spent(l app.Lateness) budget {
	b := budget{Late: tooLate(l), Events: l.Events}
	if l.Events > 0 {
		b.Used = float64(b.Late) / (float64(l.Events) * (1 - objectiveShare))
	}
	b.Width = 100 * min(b.Used, 1)
	b.Percent = fmt.Sprintf("%.0f %%", math.Ceil(100*b.Used))
	return b
}

// judge sums up the overview in one sentence.
func (o *overview) judge() {
	switch {
	case !o.Known:
		o.Tone, o.Verdict = "idle", "How late events are is not measured here."
	case o.Waiting > objective:
		o.Tone, o.Verdict = "bad", "Late: the oldest event that should be out has waited for "+span(o.Waiting)+"."
	case o.Recent.Events == 0:
		o.Tone, o.Verdict = "idle", "Nothing was due in the last "+span(recent)+"."
	case o.P99 > objective:
		o.Tone, o.Verdict = "warn", "On time now. In the last "+span(recent)+" some events were more than "+span(objective)+" late, the worst "+span(o.Recent.Max)+"."
	default:
		o.Tone, o.Verdict = "good", "On time: 99 of 100 events were at the broker within "+span(o.P99)+" of their due time."
	}
	if o.Tone == "good" && len(o.Red) > 0 {
		o.Tone = "warn"
	}
}
