package timer

import "time"

// The first and the last year a due time may name.
const (
	firstYear = 2000
	lastYear  = 2200
)

// RoundUp returns t in UTC, rounded up to the millisecond: how a due time is
// kept.
func RoundUp(t time.Time) time.Time {
	down := RoundDown(t)
	if t.After(down) {
		return down.Add(time.Millisecond)
	}
	return down
}

// RoundDown returns t in UTC, rounded down to the millisecond and without a
// monotonic reading: how the clock is read.
func RoundDown(t time.Time) time.Time {
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// ValidateExpiresAt returns an [InvalidError] unless a timer may have an expiry: none, the
// zero time, or one that is after its due time to the millisecond and not after the year
// 2200. Like a due time it is kept rounded up, so that no timer expires early. Field names
// it in the error.
func ValidateExpiresAt(field string, expiresAt, dueAt time.Time) error {
	switch kept := RoundUp(expiresAt); {
	case expiresAt.IsZero():
	case !kept.After(RoundUp(dueAt)):
		return Invalid(ReasonBadTime, "%s must be after dueAt by a millisecond or more", field)
	case kept.Year() > lastYear:
		return Invalid(ReasonBadTime, "%s is in the year %d, after %d", field, kept.Year(), lastYear)
	}
	return nil
}

// ValidateDueAt returns an [InvalidError] unless t lies in the years 2000 to
// 2200, UTC, and still does when it is rounded up.
func ValidateDueAt(t time.Time) error {
	switch year := t.UTC().Year(); {
	case t.IsZero():
		return Invalid(ReasonMissingField, "dueAt is missing")
	case year < firstYear || year > lastYear || RoundUp(t).Year() > lastYear:
		return Invalid(ReasonBadTime, "dueAt is in the year %d, outside %d to %d", year, firstYear, lastYear)
	}
	return nil
}
