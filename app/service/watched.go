package service

import (
	"context"
	"os"
	"sync"
	"time"
)

// watchInterval is how often a file is checked.
const watchInterval = time.Second

// A watched file is loaded again when it has changed. The zero value is of one that
// was not loaded yet.
type watched struct {
	mu     sync.Mutex
	loaded os.FileInfo // the file as it was loaded last, valid or not; nil if there was none
	seen   os.FileInfo // the same at the last check
}

// now calls load with the error of stat, whether the file has changed or not.
func (w *watched) now(file string, load func(error) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	w.seen, err = stat(file)
	w.loaded = w.seen
	return load(err)
}

// changed calls load with the error of stat if the file has changed, and not again since
// the last check: it may be half written, and half of it may be valid.
func (w *watched) changed(file string, load func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.seen
	now, err := stat(file)
	w.seen = now
	if same(now, w.loaded) || !same(now, before) {
		return
	}
	w.loaded = now
	load(err)
}

// watch calls check again and again until ctx is done.
func watch(ctx context.Context, check func(context.Context)) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			check(ctx)
		}
	}
}

// stat returns the information about a file, nil if that is an error.
func stat(name string) (os.FileInfo, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// same reports whether a file is unchanged.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
