package timer_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/timer"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func TestDueTimesAreRoundedUpAndTheClockDown(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	tests := []struct{ given, up, down time.Time }{
		{noon, noon, noon},
		{noon.Add(1), noon.Add(ms), noon},
		{noon.Add(ms - 1), noon.Add(ms), noon},
		{noon.Add(ms), noon.Add(ms), noon.Add(ms)},
		{noon.Add(-1), noon, noon.Add(-ms)},
		{noon.In(time.FixedZone("CET", 3600)).Add(1), noon.Add(ms), noon},
		{time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.UnixMilli(0).UTC(), time.UnixMilli(-1).UTC()}, // before the epoch, down is still down
		{time.Time{}, time.Time{}, time.Time{}},
	}
	for _, test := range tests {
		if got := timer.RoundUp(test.given); got != test.up {
			t.Errorf("%v: up is %v, want %v", test.given, got, test.up)
		}
		if got := timer.RoundDown(test.given); got != test.down {
			t.Errorf("%v: down is %v, want %v", test.given, got, test.down)
		}
	}
}

// With both, a clock that shows a rounded due time shows no time before the one
// that was asked for.
func TestRoundingIsNeverEarly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		instant := rapid.Custom(func(t *rapid.T) time.Time {
			return noon.Add(time.Duration(rapid.Int64Range(-3e6, 3e6).Draw(t, "ns")))
		})
		asked, clock := instant.Draw(t, "asked"), instant.Draw(t, "clock")
		due, now := timer.RoundUp(asked), timer.RoundDown(clock)
		if !now.Before(due) && clock.Before(asked) {
			t.Errorf("fires at %v, before %v", clock, asked)
		}
		if due.Before(asked) || due.Sub(asked) >= time.Millisecond || now.After(clock) || clock.Sub(now) >= time.Millisecond {
			t.Errorf("%v is rounded to %v, %v to %v", asked, due, clock, now)
		}
		if timer.RoundUp(due) != due || timer.RoundDown(due) != due {
			t.Errorf("%v is rounded again", due)
		}
	})
}

func TestDueTimesLieInTwoCenturies(t *testing.T) {
	t.Parallel()
	ahead, behind := time.FixedZone("ahead", 3600), time.FixedZone("behind", -3600)
	for given, want := range map[time.Time]timer.Reason{
		{}: timer.ReasonMissingField,
		time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC):            "",
		time.Date(1999, 12, 31, 23, 59, 59, 999e6, time.UTC):   timer.ReasonBadTime,
		time.Date(1999, 12, 31, 23, 0, 0, 0, behind):           "",
		time.Date(2000, 1, 1, 0, 59, 59, 0, ahead):             timer.ReasonBadTime,
		time.Date(2200, 12, 31, 23, 59, 59, 999e6, time.UTC):   "",
		time.Date(2200, 12, 31, 23, 59, 59, 999e6+1, time.UTC): timer.ReasonBadTime, // is kept as 2201
		time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC):            timer.ReasonBadTime,
		time.Date(2201, 1, 1, 0, 59, 0, 0, ahead):              "",
		time.Date(2200, 12, 31, 23, 0, 0, 0, behind):           timer.ReasonBadTime,
		time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC):              timer.ReasonBadTime,
		time.Date(292277026596, 12, 4, 15, 30, 7, 0, time.UTC): timer.ReasonBadTime,
	} {
		check(t, given.String(), timer.ValidateDueAt(given), want)
	}
}

func TestTimestampsAreBelievedWithinReason(t *testing.T) {
	t.Parallel()
	first := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	ahead := noon.Add(24 * time.Hour).UnixMilli()
	tests := []struct {
		name string
		ms   int64
		want string // part of the error; empty: valid
	}{
		{"now", noon.UnixMilli(), ""},
		{"the first one", first, ""},
		{"before the first one", first - 1, "before the year 2000"},
		{"as far ahead as may be", ahead, ""},
		{"further ahead", ahead + 1, "24h0m0s ahead of the clock of the service"},
		{"seconds", noon.Unix(), "before the year 2000; it looks like seconds: send Unix milliseconds"},
	}
	for _, test := range tests {
		err := timer.ValidateTimestamp(test.ms, noon, 24*time.Hour)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want == "":
		case err == nil || !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		case !strings.Contains(test.want, "looks") && strings.Contains(err.Error(), "looks"):
			t.Errorf("%s: a hint at a unit: %v", test.name, err)
		}
		if invalid, ok := errors.AsType[*timer.InvalidError](err); ok && invalid.Reason != timer.ReasonBadTime {
			t.Errorf("%s: the reason is %s", test.name, invalid.Reason)
		}
	}
}

func TestUnitsAreToldApart(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), noon, time.Date(2200, 12, 31, 23, 59, 59, 0, time.UTC)} {
		for unit, n := range map[string]int64{"seconds": at.Unix(), "microseconds": at.UnixMicro(), "nanoseconds": at.Unix() * 1e9} {
			if got := timer.UnitHint(uint64(n)); !strings.Contains(got, " "+unit) {
				t.Errorf("%d: %q, want %s", n, got, unit)
			}
		}
		if got := timer.UnitHint(uint64(at.UnixMilli())); got != "" {
			t.Errorf("%d: %q", at.UnixMilli(), got)
		}
	}
}
