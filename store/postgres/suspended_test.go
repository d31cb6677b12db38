package postgres

import (
	"errors"
	"testing"
	"time"
)

// TestLeaseOfASuspendedMachineIsNotCertain: its monotonic clock stood still. One whose wall clock
// was set back is.
func TestLeaseOfASuspendedMachineIsNotCertain(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]error{0: nil, 4 * time.Second: errUncertain, -time.Hour: nil} {
		l := &lease{began: time.Now()}
		l.wall.Store(l.began.Add(-ahead).UnixMilli())
		if err := l.certain(); !errors.Is(err, want) {
			t.Errorf("the wall clock gained %v: %v, want %v", ahead, err, want)
		}
	}
}
