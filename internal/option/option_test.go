package option_test

import (
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/internal/option"
)

// TestPositive keeps a value above zero, and replaces zero and less.
func TestPositive(t *testing.T) {
	t.Parallel()
	for value, want := range map[time.Duration]time.Duration{-time.Second: time.Minute, 0: time.Minute, 1: 1, time.Hour: time.Hour} {
		if got := option.Positive(value, time.Minute); got != want {
			t.Errorf("%v: %v, want %v", value, got, want)
		}
	}
}
