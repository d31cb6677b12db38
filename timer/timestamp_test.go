package timer_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

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
