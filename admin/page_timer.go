package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A life is a timer with its history.
type life struct {
	timer.Entry
	Word     string
	Late     string // how late it is, or was
	EventID  string
	Delivery timer.Delivery
	Steps    []step
}

// A step is an event in the life of a timer, past or future.
type step struct {
	What, Explained string
	At              time.Time // zero: the time is not known
	Gap             string    // since the step before
	Tone            string    // "done", "next", "late" or "bad"
}

func (p *pages) timer(ctx context.Context, r *http.Request) (page, error) {
	key := timer.Key{ServiceCallID: timer.ServiceCallID(r.URL.Query().Get("call"))}
	found := page{Name: "timer.html", Title: "Timer", Nav: "timers", Live: true}
	var err error
	if key.TenantID, err = only(ctx, r.URL.Query().Get("tenant")); err != nil {
		return found, err
	}
	if err := key.Validate(); err != nil {
		return found, err
	}
	l := &life{}
	found.Body, found.Title = l, string(key.TenantID)+"/"+string(key.ServiceCallID)
	l.Entry, l.EventID, l.Delivery, err = p.timerOf(ctx, key)
	l.Word = stateWords[l.State]
	l.list(p.now(), p.Quotas.Objective(key.TenantID))
	return found, err
}

// list lists the steps in the order of time.
func (l *life) list(now time.Time, objective time.Duration) {
	add := func(what, explained string, at time.Time, tone string) {
		l.Steps = append(l.Steps, step{what, explained, at, "", tone})
	}
	if l.State == timer.Canceled {
		add("Stored", "the first command for it was stored", l.RegisteredAt, "done")
		add("Cancel sent", "by the clock of who sent the command", time.UnixMilli(l.TimestampMS), "done")
		add("Canceled", "it will not fire", l.CanceledAt, "done")
	} else {
		add("Command sent", "by the clock of who sent it; the newest that took effect", time.UnixMilli(l.TimestampMS), "done")
		add("Stored", "the first command for it was stored", l.RegisteredAt, "done")
	}
	slices.SortStableFunc(l.Steps, func(a, b step) int { return a.At.Compare(b.At) })
	switch {
	case l.State == timer.Reached:
		add("Due", "when it was to fire", l.DueAt, "done")
		tone := "done"
		if l.ReachedAt.Sub(l.DueAt) > objective {
			tone = "late"
		}
		add("Fired", "marked as reached, its event appended to the outbox", l.ReachedAt, tone)
		l.deliver(now)
	case l.State == timer.Expired:
		add("Due", "when it was to fire", l.DueAt, "done")
		add("Expired", "not fired before "+at(l.ExpiresAt)+", so its event says that it expired", l.ReachedAt, "late")
		l.deliver(now)
	case l.State == timer.Scheduled && l.DueAt.After(now):
		add("Due", "is due "+ago(l.DueAt, now), l.DueAt, "next")
	case l.State == timer.Scheduled:
		l.Late = span(now.Sub(l.DueAt))
		add("Due", "overdue: it should have fired "+ago(l.DueAt, now)+"; the overview says what holds it", l.DueAt, "bad")
	}
	for i := 1; i < len(l.Steps); i++ {
		if s, before := &l.Steps[i], l.Steps[i-1]; !s.At.IsZero() && !before.At.IsZero() {
			s.Gap = span(s.At.Sub(before.At).Abs()) + map[bool]string{true: " before", false: " later"}[s.At.Before(before.At)]
		}
	}
}

// deliveries are the steps of events, by the state of their delivery.
var deliveries = map[timer.DeliveryState]step{
	timer.Published: {What: "Published", Explained: "the broker has acknowledged the event", Tone: "done"},
	timer.Waiting:   {What: "Waits for the broker", Explained: "the event is in the outbox", Tone: "bad"},
	timer.Deferred:  {What: "Publish failed", Explained: "it is tried again now", Tone: "bad"},
	timer.Snoozed:   {What: "Wanted later", Explained: "its handler has it again now", Tone: "next"},
	timer.Parked:    {What: "Parked", Explained: "the broker refused the event for good: see Parked events", Tone: "bad"},
}

// deliver adds the step that says where the event is.
func (l *life) deliver(now time.Time) {
	s, known := deliveries[l.Delivery.State]
	if !known {
		s = step{What: "Unknown", Explained: "too many events wait to find this one among them", Tone: "next"}
	}
	if l.Delivery.RetryAt.After(now) {
		s.Explained = map[bool]string{true: "its handler has it again ", false: "it is tried again "}[l.Delivery.State == timer.Snoozed] + ago(l.Delivery.RetryAt, now)
	}
	if s.Tone == "bad" {
		l.Late = span(now.Sub(l.DueAt))
	}
	l.Steps = append(l.Steps, s)
}
