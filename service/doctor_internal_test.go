package service

import (
	"strings"
	"testing"
	"time"
)

// TestExamineClocks compares clocks that are wrong by some time.
func TestExamineClocks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		skew time.Duration
		red  bool
		says string
	}{
		{900 * time.Millisecond, false, "agrees"},
		{3 * time.Second, false, "the clock of the broker is ahead of this machine's by 3s"},
		{-3 * time.Second, false, "by -3s"},
		{-2 * time.Minute, true, "by -2m0s"},
	} {
		found := (&examination{}).clock(databaseFound{}, brokerFound{skew: &test.skew})
		if len(found) != 1 || found[0].Red != test.red || !strings.Contains(found[0].Reason, test.says) {
			t.Errorf("%v: %+v, want %v, %q", test.skew, found, test.red, test.says)
		}
	}
}
