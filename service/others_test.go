//go:build unix

package service_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/service"
)

// TestFolderOfTheEmbeddedServerIsOurs: one that another user made first, in a folder like /tmp, is
// refused by the start and by clients, and red in the doctor.
func TestFolderOfTheEmbeddedServerIsOurs(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOTHING IS PROVEN: only root can make files of another user")
	}
	const another = 12345
	for what, make := range map[string]func(dir string) error{
		"a folder": func(dir string) error { return os.Mkdir(dir, 0o700) },
		"a link":   func(dir string) error { return os.Symlink(t.TempDir(), dir) },
	} {
		cfg := load(t)
		migrated(t, cfg)
		dir := strings.TrimSuffix(cfg.DBPath, ".db") + ".nats"
		must(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o777|os.ModeSticky), make(dir), os.Lchown(dir, another, another)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of a start that is not refused
		err := service.Run(ctx, cfg, io.Discard, slog.New(slog.DiscardHandler))
		cancel()
		_, _, client := service.Client(cfg, slog.New(slog.DiscardHandler))
		for _, err := range []error{err, client} {
			if err == nil || !strings.Contains(err.Error(), dir+" belongs to user 12345") {
				t.Errorf("%s: %v", what, err)
			}
		}
		finds(t, examine(t, cfg), red, "disk", dir+" belongs to user 12345", "db_path")
		if all, _ := os.ReadDir(dir); len(all) > 0 {
			t.Errorf("%s: %v was made there", what, all)
		}
	}
}
