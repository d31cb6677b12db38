package storetest_test

import (
	"path/filepath"
	"testing"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/store/storetest"
)

// open opens an empty store for a test, and has it closed when that ends.
func open(t testing.TB) *sqlite.Store {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The tests of a store, in a file that ends with _test.go. A store that can be shared by
// instances has more of them: see Together.
func ExampleRun() {
	_ = func(t *testing.T) { // TestContract
		storetest.Run(t, func(t testing.TB) storetest.Store { return open(t) })
	}
	_ = func(b *testing.B) { // BenchmarkStore
		storetest.Bench(b, func(t testing.TB) storetest.Store { return open(t) })
	}
}

// A store whose commands go into transactions of a host's says how these begin.
func ExampleRunJoined() {
	_ = func(t *testing.T) { // TestJoined
		storetest.RunJoined(t,
			func(t testing.TB) storetest.JoinedStore { return open(t) },
			func(t testing.TB, s storetest.JoinedStore) storetest.HostTx {
				return storetest.BeginSQL(t, s.DB(), s.Join)
			})
	}
}
