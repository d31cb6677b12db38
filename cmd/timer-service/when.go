package main

import (
	"fmt"
	"time"
)

// when returns a time for people: as messages carry it, and how far it is from now.
func when(s stamp) string {
	if s.IsZero() {
		return s.String()
	}
	return s.String() + " (" + s.fromNow() + ")"
}

// fromNow returns how far a time is from now, for people.
func (s stamp) fromNow() string {
	if s.IsZero() {
		return "-"
	}
	return relative(time.Until(time.Time(s)))
}

// relative returns a duration from now as one number, which is rounded.
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
