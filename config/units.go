package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a duration of a setting. A number without a unit is milliseconds; any
// other text is read by [ParseWithUnit].
func ParseDuration(text string) (time.Duration, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return ParseWithUnit(text)
	case ms > math.MaxInt64/int64(time.Millisecond) || ms < math.MinInt64/int64(time.Millisecond):
		return 0, fmt.Errorf("duration %q is out of range", text)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// ParseWithUnit reads a duration with the units of [time.ParseDuration], and d for days of 24
// hours, which comes first: "30s", "7d", "1d12h". It refuses a number without a unit, unless
// it is 0, because most people mean seconds.
func ParseWithUnit(text string) (time.Duration, error) {
	count, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	days, err := strconv.ParseUint(count, 10, 32)
	if err != nil || days > uint64(math.MaxInt64/day) {
		return 0, fmt.Errorf("duration %q does not begin with a whole number of days", text)
	}
	d := time.Duration(days) * day
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || rest[0] == '+' || d > math.MaxInt64-more {
		return 0, fmt.Errorf("duration %q has no duration after its days", text)
	}
	return d + more, nil
}

// FormatDuration formats a duration for [ParseDuration], as short as possible: "5s", "7d",
// "1h30m".
func FormatDuration(d time.Duration) string {
	if d != 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return zeros.ReplaceAllString(d.String(), "$1$2")
}

// zeros matches units at the end whose number is zero.
var zeros = regexp.MustCompile(`(?:(h)0m|(m))0s$`)

// binaryUnits are the units of sizes, each 1024 times the one before.
var binaryUnits = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}

// FormatSize formats a size with the greatest unit that fits without a remainder: "8GiB",
// "1000B".
func FormatSize(bytes int64) string {
	unit := 0
	for ; bytes > 0 && bytes%1024 == 0 && unit < len(binaryUnits)-1; unit++ {
		bytes /= 1024
	}
	return strconv.FormatInt(bytes, 10) + binaryUnits[unit]
}
