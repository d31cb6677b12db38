package timer

import (
	"strings"
	"time"
)

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

// ValidateHorizon returns an [InvalidError] if a timer is due further ahead of now than a
// horizon. Field names the due time in the error.
func ValidateHorizon(field string, dueAt, now time.Time, horizon time.Duration) error {
	if !dueAt.After(now.Add(horizon)) {
		return nil
	}
	return Invalid(ReasonBeyondHorizon, "%s %s is beyond the horizon of %s", field, dueAt.Format(time.RFC3339), strings.Replace(horizon.String(), "h0m0s", "h", 1))
}

// firstTimestampMS is the least timestampMs of a command that is accepted: the
// beginning of the first year that a due time may name.
const firstTimestampMS = 946_684_800_000

// ValidateTimestamp returns an [InvalidError] if the producer's time of a command
// is before the year 2000, or more than ahead later than now: such a command would
// be newer than all that follow it, for as long as the difference is. The error
// names the unit that was probably meant.
func ValidateTimestamp(ms int64, now time.Time, ahead time.Duration) error {
	if ms < firstTimestampMS {
		return Invalid(ReasonBadTime, "timestampMs %d (%s) is before the year 2000%s", ms, date(ms), UnitHint(uint64(ms)))
	}
	if limit := now.Add(ahead).UnixMilli(); ms > limit {
		return Invalid(ReasonBadTime, "timestampMs %d (%s) is more than %s ahead of the clock of the service, which is %d (%s)%s",
			ms, date(ms), ahead, now.UnixMilli(), date(now.UnixMilli()), UnitHint(uint64(ms)))
	}
	return nil
}

// date returns Unix milliseconds for people.
func date(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// UnitHint returns a text to append to an error about n Unix milliseconds: the
// unit in which n is a time of the years 2000 to 2200, or "" if there is none but
// milliseconds.
func UnitHint(n uint64) string {
	const first, last = firstTimestampMS, 7_289_654_400_000 // the beginning of 2201
	for _, u := range []struct {
		name        string
		first, last uint64
	}{{"seconds", first / 1e3, last / 1e3}, {"microseconds", first * 1e3, last * 1e3}, {"nanoseconds", first * 1e6, last * 1e6}} {
		if u.first <= n && n < u.last {
			return "; it looks like " + u.name + ": send Unix milliseconds"
		}
	}
	return ""
}
