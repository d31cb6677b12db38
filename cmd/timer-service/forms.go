package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// detailWidth is how many characters of a detail a table shows.
const detailWidth = 60

// forms format values of answers for people, by the names that the columns of verbs have. The value
// is a text, or JSON if it is no string.
var forms = map[string]func(value string) string{
	"when":   when,
	"ago":    fromNow,
	"late":   func(v string) string { ms, _ := strconv.ParseInt(v, 10, 64); return lateness(ms) },
	"capped": capped,
	"some":   some,
	"short":  func(v string) string { return short(v, detailWidth) },
	"bytes":  func(v string) string { return v + " bytes" },
	"result": resultText,
	"event":  form(whereabouts),
	"command": form(func(t admin.Timer) string {
		return fmt.Sprintf("%s of %s", t.CommandID, when(envelope.FormatTime(time.UnixMilli(t.TimestampMS))))
	}),
	"data": form(func(t admin.Timer) string {
		text, _ := readable(admin.Body{Text: new(cmp.Or(t.DataText, string(t.Data)))})
		return text
	}),
	"size":    form(sizeText),
	"body":    form(func(b admin.Body) string { text, _ := readable(b); return strings.TrimSuffix(text, "\n") }),
	"firing":  form(firingText),
	"pause":   form(func(p admin.Pause) string { return "paused " + pauseText(p) }),
	"refired": form(refiredText),

	"rescheduled": form(rescheduledText),

	"destinations": form(destinationsText),
	"unprotected": form(func(u admin.Unprotected) string {
		return fmt.Sprint(timer.Unprotected{Timers: u.Timers, More: u.More, Oldest: parseTime(u.Oldest), Before: parseTime(u.Before), At: parseTime(u.CountedAt)})
	}),
}

// form returns a form of JSON that a service writes for a T.
func form[T any](text func(T) string) func(string) string {
	return func(value string) string {
		var v T
		_ = json.Unmarshal([]byte(value), &v) // the fields that fit are shown
		return text(v)
	}
}

// capped formats a count of overdue timers, which stops at a limit.
func capped(n string) string {
	if limit := strconv.Itoa(timer.MaxOverdue); n == limit {
		return limit + "+"
	}
	return n
}

// some formats a number, or nothing if it is zero.
func some(n string) string {
	if n == "0" {
		return ""
	}
	return n
}

// resultText describes the result for a row, also of a dry run.
func resultText(row string) string {
	of := object{json.RawMessage(row)}
	if of.get("dryRun") == "true" {
		return "would be " + of.get("result")
	}
	return of.get("result")
}

// whereabouts says for people where an event is.
func whereabouts(e admin.Event) string {
	switch e.State {
	case timer.Waiting:
		return "waits for the broker since " + when(e.Since)
	case timer.Deferred:
		return fmt.Sprintf("not published in %d tries, the next at %s: %s: %s", e.Attempts, when(e.RetryAt), e.Destination, e.Reason)
	case timer.Snoozed:
		return fmt.Sprintf("its handler has it again at %s: %s", when(e.RetryAt), e.Reason)
	case timer.Parked:
		return fmt.Sprintf("parked at %s, the broker refuses it: %s", when(e.Since), e.Reason)
	case timer.DeliveryUnknown:
		return fmt.Sprintf("unknown: more than %d events wait, and it is not among the first", timer.DeliveryWalk)
	}
	return string(e.State)
}

// lateness formats milliseconds for people.
func lateness(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// sizeText says how long a body is, and whether it is the original.
func sizeText(m admin.DeadLetter) string {
	_, note := readable(m.Body)
	if m.Truncated {
		note += ", cut: not the original"
	}
	return note
}

// destinationsText names the destinations that take no events.
func destinationsText(all []admin.FailingDestination) string {
	var lines []string
	for _, f := range all {
		waiting := timer.FailingDestination{Events: f.Events}.Waiting()
		lines = append(lines, fmt.Sprintf("undelivered to %s: %s since %s: %s", printable(f.Destination), waiting, when(f.Oldest), printable(f.Reason)))
	}
	return strings.Join(lines, "\n")
}

// firingText says whether timers fire, and lists the pauses and the names that do not work.
func firingText(f admin.Firing) string {
	lines := []string{"timers fire"}
	switch {
	case f.Paused:
		lines[0] = "firing is paused " + pauseText(f.Pause)
	case len(f.NotReady) > 0:
		lines[0] = "the service is not ready: timers may not fire, or their events wait"
	case len(f.Tenants) > 0:
		lines[0] = "timers of all other tenants fire"
	}
	for _, t := range f.Tenants {
		lines = append(lines, fmt.Sprintf("firing of %s is paused %s", t.TenantID, pauseText(t.Pause)))
	}
	for _, part := range f.NotReady {
		lines = append(lines, "not ready: "+printable(part))
	}
	return strings.Join(lines, "\n")
}

// pauseText says since and until when firing is paused, and by whom.
func pauseText(p admin.Pause) string {
	text := "since " + when(p.Since)
	if p.By != "" {
		text += " by " + printable(p.By)
	}
	if p.Until != "" {
		text += " until " + when(p.Until)
	}
	return text
}

// rescheduledText says how many timers are moved, or would be, and names the first.
func rescheduledText(m admin.ManyRescheduled) string {
	line := canceledText(m.ManyCanceled)
	for i, call := range m.FirstRefused {
		if i == 0 {
			line += fmt.Sprintf("\n%-10s %d of them, which would be due after they expire:", "refused", m.Refused)
		}
		line += " " + string(call)
	}
	return line
}

// refiredText says how many events were published again, or would be, and names the first.
func refiredText(r admin.Refired) string {
	line := fmt.Sprintf("events published again: %d", r.Events)
	if r.DryRun {
		line = fmt.Sprintf("events to publish again: %d", r.Events)
	}
	for _, t := range r.First {
		line += fmt.Sprintf("\n    %s/%s  %s", t.TenantID, t.ServiceCallID, marked(t))
	}
	if more := r.Events - len(r.First); more > 0 {
		line += fmt.Sprintf("\n    and %d others", more)
	}
	if r.CompleteFrom != "" {
		line += "\ncomplete from " + when(r.CompleteFrom) + ": older timers may be deleted"
	}
	return line
}
