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
		{3 * time.Second, false, "this machine is 3s behind the broker"},
		{-3 * time.Second, false, "this machine is 3s ahead of the broker"},
		{-2 * time.Minute, true, "this machine is 2m0s ahead of the broker"},
	} {
		found := (&examination{}).clock(databaseFound{}, brokerFound{skew: &test.skew})
		if len(found) != 1 || found[0].Red != test.red || !strings.Contains(found[0].Reason, test.says) {
			t.Errorf("%v: %+v, want %v, %q", test.skew, found, test.red, test.says)
		}
	}
}
