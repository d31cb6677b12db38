package crash

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/event-service-agent/timer-service/internal/rabbitd"
	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// The real thing, in short: the service as it ships. The command timer-crash does more of it.

func TestServiceKeepsItsPromises(t *testing.T) {
	keepsPromises(t, "",
		Options{Mode: Kill, Kills: 20}, Options{Mode: Term, Kills: 8}, Options{Mode: Stop, Kills: 4},
		Options{Mode: Broker, Kills: 4}, Options{Mode: Both, Kills: 12}, Options{Mode: Embedded, Kills: 12},
		Options{Mode: Kill, Kills: 20, Broker: KafkaHere()}, Options{Mode: Kill, Kills: 20, Broker: RabbitMQ})
}

// TestInstancesKeepTheirPromises has three instances share a PostgreSQL.
func TestInstancesKeepTheirPromises(t *testing.T) {
	shared := Options{Store: Postgres, Instances: 3, Rate: 60}
	var runs []Options
	for mode, kills := range map[Mode]int{Kill: 10, Term: 4, Stop: 2, StoreGone: 6, Failover: 2} {
		shared.Mode, shared.Kills = mode, kills
		runs = append(runs, shared)
	}
	keepsPromises(t, "", runs...)
}

func TestServiceRecoversWhatWasLost(t *testing.T) {
	keepsPromises(t, "",
		Options{Mode: Wipe, Kills: 5}, Options{Mode: Rollback, Kills: 5}, Options{Mode: EmptyBroker, Kills: 3},
		Options{Mode: Wipe, Quiet: true, Kills: 2}, Options{Mode: Rollback, Quiet: true, Kills: 2},
		Options{Mode: Wipe, Kills: 3, Broker: KFake}, Options{Mode: EmptyBroker, Kills: 2, Broker: KFake}, Options{Mode: Rollback, Kills: 3, Broker: KFake})
}

func TestServiceSurvivesDeathAtEachStep(t *testing.T) {
	keepsPromises(t, stepTag, Options{Mode: Step, Kills: 2}, Options{Mode: Step, Kills: 1, Store: Postgres})
}

// keepsPromises judges runs of a service that is built with a tag. They are all at once, and
// not parallel tests, of which few run at once: they wait for the ack wait of the broker most of the time.
func keepsPromises(t *testing.T, tag string, runs ...Options) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the service and kills it for up to a minute: not with -short")
	}
	t.Parallel()
	bin, err := Build(t.Context(), t.TempDir(), tag)
	must(t, err)
	// The binary that ships does not know the variable that names a step.
	if text, err := os.ReadFile(bin); err != nil || strings.Contains(string(text), stepEnv) != (tag == stepTag) {
		t.Errorf("the service knows failpoints, or does not with the tag %q (%v)", tag, err)
	}
	var running sync.WaitGroup
	for _, opt := range runs {
		running.Go(func() {
			opt.Bin, opt.Seed = bin, 1
			r, err := logRun(t, opt)
			switch missing := errors.Is(err, rabbitd.ErrNotInstalled) || errors.Is(err, postgresd.ErrNotInstalled); {
			case missing && os.Getenv("TIMER_TEST_REQUIRE") == "":
				t.Log("SKIPPED, NOTHING IS PROVEN: ", err)
			case err != nil:
				t.Errorf("%s: %v", opt.Mode, err)
			default:
				judge(t, opt, r)
			}
		})
	}
	running.Wait()
}

// judge fails unless a run was a test, and passed.
func judge(t *testing.T, opt Options, r Report) {
	t.Helper()
	if n := r.Violations(); n > 0 {
		t.Errorf("%s on %s: %d violations, see above", r.opt.Mode, r.opt.Broker, n)
	}
	kills, lives := opt.Kills, r.opt.Instances
	switch r.opt.Mode {
	case Kill, Term, Both, Embedded, Wipe, Rollback, EmptyBroker:
		lives += kills
	case Step:
		kills *= len(steps)
		lives = kills + 2 // one to make timers old, one in the end
	}
	if r.Kills != kills || r.Lives < lives || r.Lives > lives && !r.opt.Mode.losesDatabase() || r.Fired == 0 || r.Canceled == 0 || r.DeadLettered == 0 {
		t.Errorf("%s on %s: %d kills, %d lives, %d timers fired, %d canceled, %d dead letters: not much of a test",
			r.opt.Mode, r.opt.Broker, r.Kills, r.Lives, r.Fired, r.Canceled, r.DeadLettered)
	}
	if r.Acked != r.Sent && r.opt.Mode != EmptyBroker {
		t.Errorf("%s on %s: of %d messages the broker has %d", r.opt.Mode, r.opt.Broker, r.Sent, r.Acked)
	}
	// While the broker is down the acks of the service are not observed.
	observed := (r.opt.Mode == Kill || r.opt.Mode == Term || r.opt.Mode == Stop || r.opt.Mode == StoreGone) && r.opt.Broker != RabbitMQ
	if observed && r.Accepted != r.Acked {
		t.Errorf("%s on %s: of %d messages of the broker the service acked %d", r.opt.Mode, r.opt.Broker, r.Acked, r.Accepted)
	}
	for _, s := range r.Steps {
		if s.Kills != opt.Kills {
			t.Errorf("%s: %d kills, want %d", s.Step, s.Kills, opt.Kills)
		}
	}
	// Without another broker the service has to be one.
	_, err := os.Stat(filepath.Join(r.Dir, brokerData))
	if another := err == nil; r.opt.Broker == NATS && another == (r.opt.Mode == Embedded) {
		t.Errorf("%s: another broker than the service: %v", r.opt.Mode, another)
	}
}
