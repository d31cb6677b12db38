package postgres_test

import (
	"sync"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
)

// TestInstancesUseOneBroker attaches instances of one database to two brokers.
func TestInstancesUseOneBroker(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	a, b := open(t, place, relaxed), open(t, place, relaxed)
	attach := func(broker string, takeover bool, want string) {
		t.Helper()
		for range 2 {
			if other, err := b.Attach(t.Context(), broker, "nats://"+broker, takeover); err != nil || other != want {
				t.Errorf("attached to %s: %q is used, %v; want %q", broker, other, err, want)
			}
		}
	}
	if other, err := a.Attach(t.Context(), "here", "nats://here", false); err != nil || other != "" {
		t.Fatalf("the first one: %q is used, %v", other, err)
	}
	running := own(t, a)
	attach("here", false, "")
	attach("there", false, "nats://here")
	attach("there", true, "")
	if other, err := a.Attach(t.Context(), "here", "nats://here", false); err != nil || other != "nats://there" {
		t.Errorf("the first one after a takeover: %q is used, %v", other, err)
	}
	attach("here", true, "")
	running.Release()
	attach("there", false, "")
}

// TestOneOfTwoBrokersWins attaches two instances at once, neither of which runs yet.
func TestOneOfTwoBrokersWins(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	brokers := []string{"here", "there"}
	var all sync.WaitGroup
	for _, broker := range brokers {
		s := open(t, place, relaxed)
		all.Go(func() {
			if _, err := s.Attach(t.Context(), broker, broker, false); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s := open(t, place, relaxed)
	running := own(t, s)
	defer running.Release()
	refused := 0
	for _, broker := range brokers {
		other, err := s.Attach(t.Context(), broker, broker, false)
		must(t, err)
		if other != "" {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d of two brokers are refused, want one", refused)
	}
}
