package service_test

import (
	"os"
	"testing"

	"github.com/event-service-agent/timer-service/internal/longtest"
)

func TestMain(m *testing.M) { os.Exit(longtest.Waiting(m)) }
