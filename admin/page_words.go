package admin

import (
	"cmp"
	"fmt"
	"html/template"
	"reflect"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/event-service-agent/timer-service/broker/deadletter"
	"github.com/event-service-agent/timer-service/config"
	"github.com/event-service-agent/timer-service/timer"
)

// words are the functions with which templates write numbers and times.
var words = template.FuncMap{
	"num": num, "span": span, "at": at, "clock": clock, "iso": stamp, "ago": ago, "part": partName,
	"readable": readable,
	"query": func(tenant timer.TenantID, id any) string {
		return selection{Tenant: tenant, ID: fmt.Sprint(id)}.Query()
	},
	"spent":    func(m deadletter.Message) bool { return m.Replays >= deadletter.MaxReplays || m.Truncated },
	"ago0":     func(t, now time.Time) time.Duration { return now.Sub(t).Truncate(time.Second) },
	"when":     func(at, now time.Time) shownTime { return shownTime{at, now} },
	"count":    func(n reflect.Value, thing string) string { return count(n.Int(), thing) }, // of any type of integer
	"table":    func(rows []timer.Entry, prefix string, now time.Time) table { return table{rows, prefix, now} },
	"overdue":  func(n int64) string { return atLeast(n, timer.MaxOverdue) },
	"upcoming": func(n int64) string { return atLeast(n, timer.MaxUpcoming) },
}

// A shownTime is a time to be shown relative to now.
type shownTime struct{ At, Now time.Time }

// A table shows timers.
type table struct {
	Rows   []timer.Entry
	Prefix string
	Now    time.Time
}

// num returns a number with commas.
func num(n int64) string { return humanize.Comma(n) }

// count returns a number and a noun, whose plural ends in s.
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return num(n) + " " + thing + "s"
}

// atLeast returns a number, with a plus if counting stopped there.
func atLeast(n, limit int64) string {
	if n >= limit {
		return num(n) + "+"
	}
	return num(n)
}

// perSecond returns a rate.
func perSecond(n int64, d time.Duration) string {
	rate := float64(n) / max(d.Seconds(), 1)
	switch {
	case n <= 0:
		return "0"
	case rate < 10:
		return strconv.FormatFloat(max(rate, 0.01), 'f', 2, 64)
	}
	return num(int64(rate + 0.5))
}

// span returns a duration as exactly as people want to know it.
func span(d time.Duration) string {
	exact := time.Minute
	switch late := d.Abs(); {
	case late < time.Second:
		exact = time.Millisecond
	case late < time.Minute:
		exact = 100 * time.Millisecond
	case late < time.Hour:
		exact = time.Second
	case late >= 48*time.Hour:
		exact = 24 * time.Hour
	}
	return config.FormatDuration(d.Truncate(exact))
}

// at returns a time for people.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

// clock returns the time of day.
func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

// ago returns the difference between a time and now.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	if d.Abs() > time.Minute {
		d = d.Truncate(time.Second)
	}
	switch {
	case t.IsZero():
		return ""
	case d < 0:
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

// partNames are the names of parts of a [Health] on pages.
var partNames = map[string]string{
	"store":     "Database",
	"broker":    "Broker",
	"owner":     "Ownership",
	"intake":    "Taking commands",
	"inbox":     "Inbox",
	"poller":    "Firing timers",
	"clock":     "Clock",
	"backup":    "Backups",
	"forwarder": "Sending events",
	"health":    "This process",
}

// partName returns the name of a part of a [Health] on pages.
func partName(part string) string { return cmp.Or(partNames[part], part) }

// stateWords are the names of states on pages.
var stateWords = map[timer.State]string{
	timer.Scheduled: "waits for its due time",
	timer.Reached:   "has fired",
	timer.Expired:   "expired before it could fire",
	timer.Canceled:  "canceled",
}
