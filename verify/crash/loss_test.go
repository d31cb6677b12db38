package crash

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
)

// careless returns a service that keeps nothing in its database, and does what a line of
// shell says before it serves. It has a verb that makes a copy.
func careless(t *testing.T, how, line string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return script(t, `if [ "$1" = backup ]; then echo copy > "$2"; exit; fi
`+line+`
export `+forgetfulEnv+"="+how+"; exec "+strconv.Quote(self)+` "$@"`)
}

func TestConvictsAServiceThatLosesWithItsDatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds: not with -short")
	}
	t.Parallel()
	bin := careless(t, "yes", "")
	for _, mode := range []Mode{Wipe, Rollback, EmptyBroker} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r, err := logRun(t, Options{Bin: bin, Mode: mode, Kills: 2, Seed: 1, Settle: 4 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if r.Count(history.Lost) == 0 || r.Fired == 0 || r.Kills != 2 {
				t.Errorf("%d lost, %d fired, %d kills: no violation was found", r.Count(history.Lost), r.Fired, r.Kills)
			}
			if mode == EmptyBroker && (r.Gone == 0 || r.Acked+r.Gone != r.Sent) {
				t.Errorf("of %d messages the broker has %d and lost %d", r.Sent, r.Acked, r.Gone)
			}
			for _, rule := range []history.Rule{history.Early, history.WrongTopic, history.Malformed, history.Died} {
				if r.Count(rule) > 0 {
					t.Errorf("%d are %s, of which it is not guilty", r.Count(rule), rule)
				}
			}
		})
	}
}

func TestConvictsAServiceThatFiresAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds: not with -short")
	}
	t.Parallel()
	bin := careless(t, again, "")
	for _, mode := range []Mode{Wipe, Rollback} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r, err := logRun(t, Options{Bin: bin, Mode: mode, Kills: 4, Seed: 1, Settle: 4 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if r.Count(history.Refired) == 0 {
				t.Error("nothing fired again")
			}
			for _, rule := range []history.Rule{history.Early, history.WrongTopic, history.Malformed, history.Died} {
				if r.Count(rule) > 0 {
					t.Errorf("%d are %s, of which it is not guilty", r.Count(rule), rule)
				}
			}
		})
	}
}

// TestServiceRecoversWhatWasLost is the real thing, in short.
func TestServiceRecoversWhatWasLost(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the service and kills it for up to a minute: not with -short")
	}
	t.Parallel()
	bin, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// All at once, for the reason that [TestServiceKeepsItsPromises] gives.
	var running sync.WaitGroup
	for _, opt := range []Options{
		{Mode: Wipe, Kills: 5},
		{Mode: Rollback, Kills: 5},
		{Mode: EmptyBroker, Kills: 3},
		{Mode: Wipe, Kills: 3, Broker: Kafka},
		{Mode: EmptyBroker, Kills: 2, Broker: Kafka},
		{Mode: Rollback, Kills: 3, Broker: Kafka},
	} {
		running.Go(func() {
			opt.Bin, opt.Seed = bin, 1
			r, err := logRun(t, opt)
			if err != nil {
				t.Errorf("%s: %v", opt.Mode, err)
				return
			}
			if n := r.Violations(); n > 0 {
				t.Errorf("%s on %s: %d violations, see above", r.Mode, r.Broker, n)
			}
			if r.Kills != opt.Kills || r.Lives < opt.Kills+1 || r.Fired == 0 || r.Canceled == 0 || r.DeadLettered == 0 {
				t.Errorf("%s on %s: %d kills, %d lives, %d timers fired, %d canceled, %d dead letters: not much of a test",
					r.Mode, r.Broker, r.Kills, r.Lives, r.Fired, r.Canceled, r.DeadLettered)
			}
		})
	}
	running.Wait()
}
