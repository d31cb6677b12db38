package main

import (
	"time"

	"github.com/dustin/go-humanize"

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
		return ""
	}
	return at + " (" + fromNow(at) + ")"
}

// fromNow formats the distance of a time of an answer from now, for people. It is rounded to
// seconds first, or an hour from a moment ago would be 59 minutes.
func fromNow(at string) string {
	if at == "" {
		return ""
	}
	now := time.Now()
	return humanize.RelTime(now.Add(parseTime(at).Sub(now).Round(time.Second)), now, "ago", "from now")
}
