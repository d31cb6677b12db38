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

// sizeUnits are the units of sizes, the greatest binary units first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"PiB", 1 << 50},
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"PB", 1e15},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
}

// ParseSize reads a number of bytes, without a unit or with one from KiB to PiB (powers of
// 1024) or kB to PB (powers of 1000). Case does not matter.
func ParseSize(text string) (int64, error) {
	number, factor := text, int64(1)
	for _, u := range sizeUnits {
		if n := len(text) - len(u.name); n > 0 && strings.EqualFold(text[n:], u.name) {
			number, factor = strings.TrimSpace(text[:n]), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || n > uint64(math.MaxInt64/factor) {
		return 0, fmt.Errorf("size %q is not a number of bytes, such as 512MiB", text)
	}
	return int64(n) * factor, nil
}

// FormatSize formats a size for [ParseSize], with the greatest binary unit that fits without
// a remainder: "8GiB", "1000B".
func FormatSize(bytes int64) string {
	for _, u := range sizeUnits {
		if strings.HasSuffix(u.name, "iB") && bytes >= u.bytes && bytes%u.bytes == 0 {
			return strconv.FormatInt(bytes/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(bytes, 10) + "B"
}
