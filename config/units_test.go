package config_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/event-service-agent/timer-service/config"
)

func TestDurationsAreMillisecondsUnlessTheySayOtherwise(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	tests := []struct {
		text string
		want time.Duration
	}{
		{"0", 0},
		{"5000", 5 * time.Second},
		{"250ms", 250 * time.Millisecond},
		{"1h30m", 90 * time.Minute},
		{"7d", 7 * day},
		{"1d12h", 36 * time.Hour},
		{"106751d", 106751 * day},
		{"-5", -5 * time.Millisecond},
	}
	for _, tt := range tests {
		got, err := config.ParseDuration(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("%q is %v (%v), want %v", tt.text, got, err, tt.want)
		}
		bare := strings.Trim(tt.text, "-0123456789") == "" && tt.want != 0
		if got, err := config.ParseWithUnit(tt.text); bare != (err != nil) || !bare && got != tt.want {
			t.Errorf("%q with a unit is %v (%v)", tt.text, got, err)
		}
	}
	for _, text := range []string{
		"", "d", "1.5", "1.5d", "-1d", "1d-1h", "1d+1h", "1d12", "1dd", "106752d", "106751d24h", "9223372036854775807", "-9223372036854775807", "1w", "1h1d",
	} {
		if got, err := config.ParseDuration(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

func TestDurationsReadBackAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"5s": 5 * time.Second, "1h": time.Hour, "1h30m": 90 * time.Minute, "10m": 10 * time.Minute, "7d": 168 * time.Hour,
		"36h": 36 * time.Hour, "1ms": time.Millisecond, "0s": 0, "1m10s": 70 * time.Second,
	} {
		if got := config.FormatDuration(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, time.Hour, 24 * time.Hour}).Draw(t, "unit")
		d := unit * time.Duration(rapid.Int64Range(0, math.MaxInt64/int64(unit)).Draw(t, "count"))
		if got, err := config.ParseDuration(config.FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%v is written %q and read as %v, %v", d, config.FormatDuration(d), got, err)
		}
	})
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1048576": "1MiB", "1024KiB": "1MiB", "512MiB": "512MiB", "8 GiB": "8GiB", "8gib": "8GiB", "2TiB": "2TiB", "10GB": "9765625KiB", "1048577": "1048577B",
	} {
		c, err := config.Load(nil, []string{"TIMER_NATS_MAX_BYTES=" + text}, "")
		if got := config.FormatSize(c.NATSMaxBytes); err != nil || got != want {
			t.Errorf("%q is %s (%v), want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"B", "GiB", "-1", "1 000 x", "9223372036854775808", "8192PiB", "1GiBB"} {
		if c, err := config.Load(nil, []string{"TIMER_NATS_MAX_BYTES=" + text}, ""); err == nil {
			t.Errorf("%q is %d, want an error", text, c.NATSMaxBytes)
		}
	}
}
