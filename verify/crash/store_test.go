package crash

import (
	"errors"
	"os"
	"testing"

	"github.com/event-service-agent/timer-service/verify/internal/postgresd"
)

// postgresEnv names a PostgreSQL server on which tests may make databases.
const postgresEnv = "TIMER_TEST_POSTGRES"

// ofPostgres adds a PostgreSQL to options: that of the environment, or a server
// of the run's own. The test is skipped if there is neither.
func ofPostgres(t *testing.T, opt Options) Options {
	t.Helper()
	opt.Store, opt.StoreURL = Postgres, os.Getenv(postgresEnv)
	if opt.StoreURL != "" {
		return opt
	}
	switch err := postgresd.Installed(); {
	case errors.Is(err, postgresd.ErrNotInstalled) && os.Getenv("TIMER_TEST_REQUIRE") == "":
		t.Skipf("SKIPPED, NOTHING IS PROVEN: %s is not set, and %v", postgresEnv, err)
	case err != nil:
		t.Fatal(err)
	}
	return opt
}
