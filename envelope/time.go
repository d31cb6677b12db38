package envelope

import (
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// timeFormat is how times are written: RFC 3339, UTC, milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

// maxOffset is the greatest distance of a zone from UTC, in minutes.
const maxOffset = 14 * 60

// FormatTime returns t as messages carry it: RFC 3339 in UTC with exactly three
// digits of fraction, what is finer being cut off. Round a due time up first.
func FormatTime(t time.Time) string { return string(appendTime(nil, t)) }

// appendTime does what AppendFormat of the standard library does, in a fifth of
// the time.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.AppendFormat(b, timeFormat)
	}
	hour, minute, second := t.Clock()
	ms := t.Nanosecond() / int(time.Millisecond)
	b = append2(append2(b, year/100), year%100)
	b = append2(append(b, '-'), int(month))
	b = append2(append(b, '-'), day)
	b = append2(append(b, 'T'), hour)
	b = append2(append(b, ':'), minute)
	b = append2(append(b, ':'), second)
	b = append2(append(b, '.', byte('0'+ms/100)), ms%100)
	return append(b, 'Z')
}

// append2 appends two digits.
func append2(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// ParseTime reads a time as messages carry it: RFC 3339 with a zone, at most
// ±14:00, and any number of digits of fraction, of which a rest finer than a
// millisecond rounds up. The result is in UTC and within the years 2000 to 2200.
// The letters T and Z may be lower case, as the RFC allows; a space for the T,
// a comma, 24:00 and the leap second :60 are refused.
func ParseTime(s string) (time.Time, error) { return parseTime("time", s, up) }

// A rounding says what becomes of a rest finer than a millisecond.
type rounding int

const (
	down rounding = 0 // it is cut off
	up   rounding = 1 // it counts as one more
)

// parseTime is ParseTime with the name of the field for the error.
func parseTime[T string | []byte](field string, s T, r rounding) (time.Time, error) {
	t, wrong := readTime(s, r)
	if wrong != "" {
		return time.Time{}, timer.Invalid(timer.ReasonBadTime, "%s %s %s", field, timer.Quote(string(s)), wrong)
	}
	return t, nil
}

// What can be wrong with a time, after its name and value.
const (
	wrongForm   = "is not RFC 3339; write it like 2030-01-31T12:00:00.000Z"
	wrongDate   = "names a month or a day that does not exist"
	wrongHour   = "has an hour above 23; midnight is 00:00 of the next day"
	wrongMinute = "has a minute above 59"
	wrongLeap   = "has a leap second, which is not supported; name the next full second"
	wrongSecond = "has a second above 60"
	wrongComma  = "has a comma before the fraction; write a point"
	noFraction  = "has no digit after the point"
	noZone      = "has no zone; end it with Z or an offset like +01:00"
	wrongZone   = "ends in something that is no zone; end it with Z or an offset like +01:00"
	wrongOffset = "has an offset beyond 14:00, or minutes of an offset above 59"
	wrongYear   = "is outside the years 2000 to 2200, UTC"
)

// readTime returns a time, or what is wrong with it.
func readTime[T string | []byte](s T, r rounding) (t time.Time, wrong string) {
	const form = "0000-00-00t00:00:00"
	if len(s) < len(form) {
		return t, wrongForm
	}
	for i := range len(form) {
		switch c := s[i]; form[i] {
		case '0':
			if c < '0' || c > '9' {
				return t, wrongForm
			}
		case 't':
			if c != 't' && c != 'T' {
				return t, wrongForm
			}
		default:
			if c != form[i] {
				return t, wrongForm
			}
		}
	}
	year, month, day := 100*two(s, 0)+two(s, 2), two(s, 5), two(s, 8)
	hour, minute, second := two(s, 11), two(s, 14), two(s, 17)
	switch {
	case month < 1 || month > 12 || day < 1 || day > daysIn(year, month):
		return t, wrongDate
	case hour > 23:
		return t, wrongHour
	case minute > 59:
		return t, wrongMinute
	case second == 60:
		return t, wrongLeap
	case second > 60:
		return t, wrongSecond
	}
	ms, end, wrong := readFraction(s, len(form), r)
	if wrong != "" {
		return t, wrong
	}
	offset, wrong := readZone(s, end)
	if wrong != "" {
		return t, wrong
	}
	t = time.Date(year, time.Month(month), day, hour, minute-offset, second, 0, time.UTC)
	t = t.Add(time.Duration(ms) * time.Millisecond)
	if timer.ValidateDueAt(t) != nil {
		return time.Time{}, wrongYear
	}
	return t, ""
}

// readFraction reads the fraction of a second that may begin at i. It returns
// it in milliseconds, rounded, so from 0 to 1000, and where it ends.
func readFraction[T string | []byte](s T, i int, r rounding) (ms, end int, wrong string) {
	if i == len(s) || s[i] != '.' {
		if i < len(s) && s[i] == ',' {
			return 0, i, wrongComma
		}
		return 0, i, ""
	}
	i++
	begin, rest := i, 0
	for weight := 100; i < len(s) && '0' <= s[i] && s[i] <= '9'; i++ {
		digit := int(s[i] - '0')
		ms += digit * weight
		if weight == 0 && digit > 0 {
			rest = int(r)
		}
		weight /= 10
	}
	if i == begin {
		return 0, i, noFraction
	}
	return ms + rest, i, ""
}

// readZone reads the zone that s must have from i to its end, and returns its
// distance from UTC in minutes.
func readZone[T string | []byte](s T, i int) (offset int, wrong string) {
	switch {
	case i == len(s):
		return 0, noZone
	case i+1 == len(s) && (s[i] == 'Z' || s[i] == 'z'):
		return 0, ""
	case i+len("+00:00") != len(s) || s[i] != '+' && s[i] != '-' || s[i+3] != ':':
		return 0, wrongZone
	}
	for _, j := range [...]int{i + 1, i + 2, i + 4, i + 5} {
		if s[j] < '0' || s[j] > '9' {
			return 0, wrongZone
		}
	}
	minutes := two(s, i+4)
	offset = 60*two(s, i+1) + minutes
	if minutes > 59 || offset > maxOffset {
		return 0, wrongOffset
	}
	if s[i] == '-' {
		return -offset, ""
	}
	return offset, ""
}

// two returns the two digits at i as a number.
func two[T string | []byte](s T, i int) int { return 10*int(s[i]-'0') + int(s[i+1]-'0') }

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
