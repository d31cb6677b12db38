package crash

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/event-service-agent/timer-service/internal/rabbitd"
)

// TestServiceKeepsItsPromises is the real thing, in short: the service as it
// ships, sixty faults. The command timer-crash does more of it.
func TestServiceKeepsItsPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the service and kills it for up to a minute: not with -short")
	}
	t.Parallel()
	bin, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	kills := map[Mode]int{Kill: 20, Term: 8, Stop: 4, Broker: 4, Both: 12, Embedded: 12}
	// All at once, and not as parallel tests, of which few run at once: they wait
	// for the ack wait of the broker most of the time.
	var running sync.WaitGroup
	for mode, kills := range kills {
		running.Go(func() {
			r, err := logRun(t, Options{Bin: bin, Mode: mode, Kills: kills, Seed: 1})
			if err != nil {
				t.Errorf("%s: %v", mode, err)
				return
			}
			lives := kills + 1
			if mode == Stop || mode == Broker {
				lives = 1
			}
			judge(t, r, kills, lives)
		})
	}
	running.Wait()
}

// TestServiceKeepsItsPromisesOnOtherBrokers is the same with brokers that drop no
// duplicates and remember less.
func TestServiceKeepsItsPromisesOnOtherBrokers(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the service and kills it for up to a minute: not with -short")
	}
	t.Parallel()
	bin, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []Kind{Kafka, RabbitMQ} {
		t.Run(string(kind), func(t *testing.T) {
			r, err := logRun(t, Options{Bin: bin, Broker: kind, Kills: 20, Seed: 1})
			if errors.Is(err, rabbitd.ErrNotInstalled) && os.Getenv("TIMER_TEST_REQUIRE") == "" {
				t.Skip("SKIPPED: ", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := r.Violations(); n > 0 {
				t.Errorf("%d violations, see above", n)
			}
			if r.Kills != 20 || r.Lives != 21 || r.Fired == 0 || r.Canceled == 0 || r.DeadLettered == 0 {
				t.Errorf("%d kills, %d lives, %d timers fired, %d canceled, %d dead letters: not much of a test",
					r.Kills, r.Lives, r.Fired, r.Canceled, r.DeadLettered)
			}
			if r.Acked != r.Sent || kind == Kafka && r.Accepted != r.Acked {
				t.Errorf("of %d messages the broker has %d, and the service acked %d", r.Sent, r.Acked, r.Accepted)
			}
		})
	}
}

// judge fails unless a run was a test, and passed.
func judge(t *testing.T, r Report, kills, lives int) {
	t.Helper()
	if n := r.Violations(); n > 0 {
		t.Errorf("%s: %d violations, see above", r.Mode, n)
	}
	if r.Kills != kills || r.Lives != lives || r.Fired == 0 || r.Canceled == 0 || r.DeadLettered == 0 {
		t.Errorf("%s: %d kills, %d lives, %d timers fired, %d canceled, %d dead letters: not much of a test",
			r.Mode, r.Kills, r.Lives, r.Fired, r.Canceled, r.DeadLettered)
	}
	if r.Acked != r.Sent {
		t.Errorf("%s: of %d messages the broker has %d", r.Mode, r.Sent, r.Acked)
	}
	// While the broker is down the acks of the service are not observed.
	observed := r.Mode == Kill || r.Mode == Term || r.Mode == Stop || r.Mode == StoreGone
	if observed && r.Accepted != r.Acked {
		t.Errorf("%s: of %d messages of the broker the service acked %d", r.Mode, r.Acked, r.Accepted)
	}
	// Without a broker beside it the service has to be one.
	_, err := os.Stat(filepath.Join(r.Dir, "broker"))
	if beside := err == nil; beside == (r.Mode == Embedded) {
		t.Errorf("%s: a broker beside the service: %v", r.Mode, beside)
	}
}
