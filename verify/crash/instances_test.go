package crash

import (
	"sync"
	"testing"
)

// TestInstancesKeepTheirPromises has three instances share a PostgreSQL: the
// service as it ships, in short. The command timer-crash does more of it.
func TestInstancesKeepTheirPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the service and kills it for up to a minute: not with -short")
	}
	t.Parallel()
	const instances = 3
	shared := ofPostgres(t, Options{Instances: instances, Rate: 60, Seed: 1})
	bin, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	kills := map[Mode]int{Kill: 10, Term: 4, Stop: 2, StoreGone: 4}
	// All at once, for the reason that [TestServiceKeepsItsPromises] gives.
	var running sync.WaitGroup
	for mode, kills := range kills {
		running.Go(func() {
			opt := shared
			opt.Bin, opt.Mode, opt.Kills = bin, mode, kills
			r, err := logRun(t, opt)
			if err != nil {
				t.Errorf("%s: %v", mode, err)
				return
			}
			lives := instances
			if mode == Kill || mode == Term {
				lives += kills
			}
			judge(t, r, kills, lives)
		})
	}
	running.Wait()
}
