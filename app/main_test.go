package app_test

import (
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/event-service-agent/timer-service/internal/longtest"
)

func TestMain(m *testing.M) {
	ats.Register() // else the server's clock of access times belongs to the first bubble
	os.Exit(longtest.Simulating(m))
}
