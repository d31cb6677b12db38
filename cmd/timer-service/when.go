package main

import (
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
)

// parseTime reads a time that a service has written; an empty text is the zero time.
func parseTime(text string) time.Time {
	t, _ := envelope.ParseTime(text)
	return t
}

// when formats a time of an answer for people: the time itself, and its distance from now.
func when(at string) string {
	if at == "" {
		return "-"
	}
	return at + " (" + fromNow(at) + ")"
}

// fromNow formats the distance of a time of an answer from now, for people.
func fromNow(at string) string {
	if at == "" {
		return "-"
	}
	return relative(time.Until(parseTime(at)))
}

// relative formats a duration from now as one rounded number.
func relative(d time.Duration) string {
	const day = 24 * time.Hour
	text := ""
	switch far := d.Abs().Round(time.Second); {
	case far == 0:
		return "now"
	case far < time.Minute:
		text = fmt.Sprintf("%d s", far/time.Second)
	case far < time.Hour:
		text = fmt.Sprintf("%d min", far.Round(time.Minute)/time.Minute)
	case far < 2*day:
		text = fmt.Sprintf("%d h", far.Round(time.Hour)/time.Hour)
	default:
		text = fmt.Sprintf("%d days", far.Round(day)/day)
	}
	if d < 0 {
		return text + " ago"
	}
	return "in " + text
}
