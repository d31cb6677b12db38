package service

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// watchInterval is how often a file is checked.
const watchInterval = time.Second

// A watched file is loaded again when it has changed.
type watched struct {
	file string
	// load uses the file, and describes for people what is in force. With an error the old
	// content stays in force.
	load  func() (string, error)
	log   *slog.Logger
	is    string // message of the log when the file was loaded
	wrong string // message of the log when it has a mistake

	loaded os.FileInfo // the file at the last load, valid or not; nil if it did not exist
	seen   os.FileInfo // the file at the last check
}

// first loads the file, before Run.
func (w *watched) first() (string, error) {
	w.seen = stat(w.file)
	w.loaded = w.seen
	return w.load()
}

// Run loads the file whenever it has changed, until ctx is done. A mistake in it is logged
// once, and the content that was loaded before stays in force.
func (w *watched) Run(ctx context.Context) error {
	for pause.For(ctx, watchInterval) {
		w.reload(ctx)
	}
	return nil
}

// reload loads the file if it has changed, but only if it has not changed since the last
// check: a file may be half written, and half of it may be valid.
func (w *watched) reload(ctx context.Context) {
	before := w.seen
	w.seen = stat(w.file)
	if same(w.seen, w.loaded) || !same(w.seen, before) {
		return
	}
	w.loaded = w.seen
	if inForce, err := w.load(); err != nil {
		w.log.ErrorContext(ctx, w.wrong, "file", w.file, "error", err) //nolint:sloglint // a constant of each file
	} else {
		w.log.InfoContext(ctx, w.is, "file", w.file, "in_force", inForce) //nolint:sloglint // the same
	}
}

// stat returns the information about a file, or nil if it does not exist.
func stat(name string) os.FileInfo {
	info, err := os.Stat(name)
	if err != nil {
		return nil
	}
	return info
}

// same reports whether a file is unchanged.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
