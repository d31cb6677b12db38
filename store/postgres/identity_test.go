package postgres_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/event-service-agent/timer-service/internal/logbuf"
	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
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
		if err != nil {
			t.Fatal(err)
		}
		if other != "" {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d of two brokers are refused, want one", refused)
	}
}

// TestNewDatabaseIsLogged opens one that is new, and again.
func TestNewDatabaseIsLogged(t *testing.T) {
	t.Parallel()
	place, log := pgtest.URL(t), new(logbuf.Buffer)
	for range 2 {
		s := open(t, place, postgres.Options{Durability: postgres.Relaxed, Log: slog.New(slog.NewTextHandler(log, nil))})
		id, _, err := s.Identity(t.Context())
		if err != nil || strings.Count(log.String(), "made a new database") != 1 || !strings.Contains(log.String(), id) {
			t.Errorf("%v, and the log says %s", err, log)
		}
	}
}

func TestNameOfADatabase(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	_, name, err := open(t, place, relaxed).Identity(t.Context())
	if err != nil || !strings.HasPrefix(name, "postgres ") || !strings.Contains(name, ".timer_test_") || strings.Contains(name, "@") {
		t.Errorf("name %q, %v", name, err)
	}
}
