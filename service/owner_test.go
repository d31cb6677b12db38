package service_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/timer"
)

// TestDatabaseThatRabbitMQCanNotBringBackIsNamed removes it, and starts twice.
func TestDatabaseThatRabbitMQCanNotBringBackIsNamed(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "r") // RabbitMQ has space for a short name only
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg := load(t, append(rabbitSite(t).environ, "TIMER_DB_PATH="+filepath.Join(dir, "t.db"))...)
	r := run(t, cfg)
	r.line("ready")
	r.stops()
	if err := os.Remove(cfg.DBPath); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := service.Run(t.Context(), cfg, io.Discard, quiet)
		for _, word := range []string{"belong to another database that was at the same place", "RabbitMQ keeps no message that was acked", "--takeover"} {
			if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), word) {
				t.Errorf("Run: %v, want ErrFatal with %q", err, word)
			}
		}
		if strings.Contains(err.Error(), "not empty") {
			t.Errorf("it is empty: %v", err)
		}
	}
	cfg.Takeover = true
	r = run(t, cfg)
	r.line("ready")
	r.stops()
}
