package service

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/config"
)

// withTestClock returns the clock of a test, and the configuration with a database in a temporary
// folder of its own, which remove deletes: below the folder of db_path, or of the system if that
// is not set. Without TestClock it returns no clock, and the configuration as it is.
func withTestClock(cfg config.Config) (_ config.Config, clock *app.TestClock, remove func() error, err error) {
	if !cfg.TestClock {
		return cfg, nil, func() error { return nil }, nil
	}
	if !cfg.DBURL.Empty() {
		return cfg, nil, nil, errors.New("--test-clock has a SQLite database of its own: remove db_url")
	}
	parent := ""
	if cfg.From("db_path") != config.FromDefault {
		parent = filepath.Dir(cfg.DBPath)
		err = os.MkdirAll(parent, 0o700)
	}
	dir, wrong := os.MkdirTemp(parent, "timer-test-clock-")
	if err = errors.Join(err, wrong); err != nil {
		return cfg, nil, nil, fmt.Errorf("make a folder for the database of --test-clock: %w", err)
	}
	cfg.DBPath = filepath.Join(dir, "timers.db")
	if cfg.From("durability") == config.FromDefault { // nothing outlives the process
		cfg.Durability = config.Relaxed
	}
	return cfg, app.NewTestClock(time.Now()), func() error { return os.RemoveAll(dir) }, nil
}
