package envelope_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func TestParsesTimesInAnyZoneAndRoundsUp(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"2030-01-31T11:30:00Z":                                  "2030-01-31T11:30:00.000Z",
		"2030-01-31T11:30:00.5Z":                                "2030-01-31T11:30:00.500Z",
		"2030-01-31T11:30:00.123Z":                              "2030-01-31T11:30:00.123Z",
		"2030-01-31T11:30:00.1230000000000000000000Z":           "2030-01-31T11:30:00.123Z",
		"2030-01-31T11:30:00.1230000000000000000001Z":           "2030-01-31T11:30:00.124Z",
		"2030-01-31T11:30:00.0001Z":                             "2030-01-31T11:30:00.001Z",
		"2030-01-31T11:30:00.9991Z":                             "2030-01-31T11:30:01.000Z",
		"2030-12-31T23:59:59.9999Z":                             "2031-01-01T00:00:00.000Z",
		"2030-01-31T12:30:00.500+01:00":                         "2030-01-31T11:30:00.500Z",
		"2030-01-31T00:00:00+14:00":                             "2030-01-30T10:00:00.000Z",
		"2030-01-31T00:00:00-14:00":                             "2030-01-31T14:00:00.000Z",
		"2030-01-31T00:00:00-00:00":                             "2030-01-31T00:00:00.000Z",
		"2030-01-31T00:00:00+05:45":                             "2030-01-30T18:15:00.000Z",
		"2030-01-31t00:00:00z":                                  "2030-01-31T00:00:00.000Z",
		"2028-02-29T00:00:00Z":                                  "2028-02-29T00:00:00.000Z",
		"2000-02-29T00:00:00Z":                                  "2000-02-29T00:00:00.000Z",
		"2000-01-01T00:00:00Z":                                  "2000-01-01T00:00:00.000Z",
		"1999-12-31T23:59:59.9991Z":                             "2000-01-01T00:00:00.000Z",
		"1999-12-31T23:00:00-01:00":                             "2000-01-01T00:00:00.000Z",
		"2200-12-31T23:59:59.999Z":                              "2200-12-31T23:59:59.999Z",
		"2201-01-01T00:59:59+01:00":                             "2200-12-31T23:59:59.000Z",
		"2030-01-31T11:30:00." + strings.Repeat("9", 999) + "Z": "2030-01-31T11:30:01.000Z",
	} {
		got, err := envelope.ParseTime(given)
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		if envelope.FormatTime(got) != want {
			t.Errorf("%s: got %s, want %s", given, envelope.FormatTime(got), want)
		}
		if got.Location() != time.UTC || got.Nanosecond()%1e6 != 0 {
			t.Errorf("%s: %v is not in UTC and whole milliseconds", given, got)
		}
	}
}

// Several of these pass time.Parse(time.RFC3339Nano, …) or its siblings in
// other languages.
func TestRefusesTimesThatCanBeMisread(t *testing.T) {
	t.Parallel()
	for given, fix := range map[string]string{
		"":                               "write it like",
		"tomorrow":                       "write it like",
		"2030-01-31":                     "write it like",
		"2030-01-31 11:30:00Z":           "write it like",
		"20300131T113000Z":               "write it like",
		"2030-01-31T1:30:00Z":            "write it like",
		"2030-01-31T11:30:0aZ":           "write it like",
		" 2030-01-31T11:30:00Z":          "write it like",
		"２０３０-01-31T11:30:00Z":           "write it like",
		"2030-01-31T11:30:00":            "no zone",
		"2030-01-31T11:30:00.5":          "no zone",
		"2030-01-31T11:30:00Z ":          "no zone",
		"2030-01-31T11:30:00CET":         "no zone",
		"2030-01-31T11:30:00+01":         "no zone",
		"2030-01-31T11:30:00+01:00[CET]": "no zone",
		"2030-01-31T11:30:00−01:00":      "no zone",
		"2030-01-31T11:30:00Z\x00":       "no zone",
		"2030-01-31T11:30:00+14:01":      "14:00",
		"2030-01-31T11:30:00+99:99":      "14:00",
		"2030-01-31T11:30:00+01:60":      "59",
		"2030-01-31T11:30:00,5Z":         "comma",
		"2030-01-31T11:30:00.Z":          "digit",
		"2030-01-31T24:00:00Z":           "00:00 of the next day",
		"2030-01-31T99:00:00Z":           "00:00 of the next day",
		"2030-01-31T11:60:00Z":           "minute",
		"2016-12-31T23:59:60Z":           "leap second",
		"2030-01-31T11:30:61Z":           "second above",
		"2030-02-30T00:00:00Z":           "does not exist",
		"2100-02-29T00:00:00Z":           "does not exist",
		"2030-00-01T00:00:00Z":           "does not exist",
		"1999-12-31T23:59:59.999Z":       "2000 to 2200",
		"2000-01-01T00:00:00+01:00":      "2000 to 2200",
		"2201-01-01T00:00:00Z":           "2000 to 2200",
		"2200-12-31T23:59:59.9991Z":      "2000 to 2200",
		"2200-12-31T23:59:59-00:01":      "2000 to 2200",
	} {
		_, err := envelope.ParseTime(given)
		invalid, ok := errors.AsType[*timer.InvalidError](err)
		if !ok || invalid.Reason != timer.ReasonBadTime || !strings.Contains(invalid.Detail, fix) {
			t.Errorf("%q: got error %v, want one with %q in it", given, err, fix)
		}
	}
}
