package postgres_test

import (
	"net/url"
	"testing"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
)

// TestAbsentServersAreToldFromThoseThatRefuse opens databases that can't be
// opened. Only a server that may come is worth waiting for.
func TestAbsentServersAreToldFromThoseThatRefuse(t *testing.T) {
	t.Parallel()
	there := pgtest.URL(t)
	u, err := url.Parse(there)
	must(t, err)
	u.Path += "_not"
	for address, absent := range map[string]bool{
		"postgres://postgres@127.0.0.1:1/db":              true,
		"postgres://postgres@no-such-host.invalid/db":     true,
		"postgres:///db?host=/no/such/socket":             true,
		u.String():                                        false, // no such database
		there + "&default_transaction_isolation=nonsense": false,
		"postgres://a:b/c@host/db":                        false, // no URL
	} {
		s, err := postgres.Open(t.Context(), address, postgres.Options{})
		if err == nil {
			t.Errorf("%s: opened", address)
			_ = s.Close()
			continue
		}
		if got := postgres.IsAbsent(err); got != absent {
			t.Errorf("%s: %v, absent is %v, want %v", address, err, got, absent)
		}
	}
}
