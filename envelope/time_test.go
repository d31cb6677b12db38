package envelope_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// Times are kept in UTC and rounded up. Several of the refused ones pass
// time.Parse(time.RFC3339Nano, …) or its siblings in other languages.
func TestParsesTimesOfVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors[struct {
		Time   vectorText
		Kept   string // empty if it is refused
		Detail string // a part of the detail
	}](t, "times.json") {
		got, err := envelope.ParseTime(string(v.Time))
		if v.Kept == "" {
			invalid, ok := errors.AsType[*timer.InvalidError](err)
			if !ok || invalid.Reason != timer.ReasonBadTime || !strings.Contains(invalid.Detail, v.Detail) {
				t.Errorf("%q: got error %v, want one with %q in it", v.Time, err, v.Detail)
			}
			continue
		}
		if err != nil || envelope.FormatTime(got) != v.Kept || got.Location() != time.UTC || got.Nanosecond()%1e6 != 0 {
			t.Errorf("%s: %v, %v, want %s in UTC and whole milliseconds", v.Time, got, err, v.Kept)
		}
	}
}
