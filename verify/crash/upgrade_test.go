package crash

import (
	"errors"
	"os"
	"testing"
)

// oldEnv names the commit of the older version; the newest tag if it is empty.
const oldEnv = "TIMER_TEST_OLD"

// TestUpgradeKeepsItsPromises replaces the newest version that was released by this one,
// on both stores, in short. The command timer-crash does more of it.
func TestUpgradeKeepsItsPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two versions of the service and kills them for up to a minute: not with -short")
	}
	t.Parallel()
	for name, opt := range map[string]Options{
		"one on a file":       {Kills: 6},
		"two on one database": {Kills: 6, Instances: 2, Store: Postgres},
	} {
		t.Run(name, func(t *testing.T) {
			if opt.Store == Postgres {
				opt = ofPostgres(t, opt)
			}
			opt.Mode, opt.Old, opt.Rate, opt.Seed = Upgrade, os.Getenv(oldEnv), 60, 1
			r, err := logRun(t, opt)
			if errors.Is(err, ErrNoCommit) {
				t.Skipf("SKIPPED, NOTHING IS PROVEN: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			judge(t, r, opt.Kills, r.Lives)
		})
	}
}
