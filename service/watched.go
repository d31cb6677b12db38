package service

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// watchInterval is how often a file is checked.
const watchInterval = time.Second

// A watchedFile is loaded again when it has changed.
type watchedFile struct {
	file string
	also string // a second file, whose changes count, too; may be empty
	// load uses the content of the file, and describes it for people. After an error the old
	// content stays in force.
	load  func() (string, error)
	log   *slog.Logger
	is    string // message of the log when the file was loaded
	wrong string // message of the log when it has a mistake

	loaded string // the state of the file at the last load, valid or not
	seen   string // its state at the last check
}

// first loads the file, before Run.
func (w *watchedFile) first() (string, error) {
	w.seen = w.state()
	w.loaded = w.seen
	return w.load()
}

// Run loads the file whenever it has changed, until ctx is done. A mistake in it is logged
// once, and the content that was loaded before stays in force.
func (w *watchedFile) Run(ctx context.Context) error {
	for pause.For(ctx, watchInterval) {
		w.reload(ctx)
	}
	return nil
}

// reload loads the file if it has changed, but only if it has not changed since the last
// check: a file may be half written, and half of it may be valid.
func (w *watchedFile) reload(ctx context.Context) {
	before := w.seen
	w.seen = w.state()
	if w.seen == w.loaded || w.seen != before {
		return
	}
	w.loaded = w.seen
	if inForce, err := w.load(); err != nil {
		w.log.ErrorContext(ctx, w.wrong, "file", w.file, "error", err) //nolint:sloglint // a constant of each file
	} else {
		w.log.InfoContext(ctx, w.is, "file", w.file, "in_force", inForce) //nolint:sloglint // the same
	}
}

func (w *watchedFile) state() string { return state(w.file) + state(w.also) }

// state returns a text that changes with the content of a file, or "" if the file can't be read. The
// file may change and keep its size and time: cp -p, images and Nix set the time.
func state(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return fmt.Sprint(sha256.Sum256(text))
}
