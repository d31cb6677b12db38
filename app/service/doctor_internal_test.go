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
		skew  time.Duration
		state FindingState
		says  string
	}{
		{900 * time.Millisecond, OK, "agrees"},
		{3 * time.Second, Warning, "this machine is 3s behind the broker"},
		{-3 * time.Second, Warning, "this machine is 3s ahead of the broker"},
		{-2 * time.Minute, Bad, "this machine is 2m0s ahead of the broker"},
	} {
		found := (&examination{}).clock(databaseFound{}, brokerFound{skew: &test.skew})
		if len(found) != 1 || found[0].State != test.state || !strings.Contains(found[0].Text, test.says) {
			t.Errorf("%v: %+v, want %s, %q", test.skew, found, test.state, test.says)
		}
	}
}
