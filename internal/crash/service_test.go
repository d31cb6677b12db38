package crash

import (
	"testing"

	"github.com/event-service-agent/timer-service/internal/crash/history"
)

// TestServiceKeepsItsPromises is the real thing, in short: the service as it
// ships, three kills. The command timer-crash does more of it.
func TestServiceKeepsItsPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the service and kills it for up to a minute: not with -short")
	}
	bin, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Mode{Kill, Term} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := mustRun(t, Options{Bin: bin, Mode: mode, Kills: 3, Rate: 1000, Seed: 1})
			if n := r.Violations(); n > 0 {
				t.Errorf("%d violations, see above", n)
			}
			if r.Kills != 3 || r.Lives != 4 || r.Fired == 0 || r.Canceled == 0 || r.Buried == 0 {
				t.Errorf("%d kills, %d lives, %d timers fired, %d canceled, %d dead letters: not much of a test",
					r.Kills, r.Lives, r.Fired, r.Canceled, r.Buried)
			}
			if r.Accepted != r.Acked || r.Acked != r.Sent {
				t.Errorf("of %d messages the broker has %d, and the service acked %d", r.Sent, r.Acked, r.Accepted)
			}
			if mode == Term && r.Count(history.Duplicate) > 0 {
				t.Errorf("%d duplicates without a crash", r.Count(history.Duplicate))
			}
		})
	}
}
