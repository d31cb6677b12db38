package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A mutant is one wrong change.
type mutant struct {
	name   string
	breaks string // what goes wrong with it
	edits  []edit // more than one where the code checks twice
	test   test   // has to turn red
}

// An edit replaces a text that occurs exactly once in a file.
type edit struct{ file, old, new string }

// try applies the mutant to the module in dir, runs its test, and takes it back.
func (m mutant) try(ctx context.Context, dir string) (_ result, err error) {
	for _, e := range m.edits {
		restore, failed := e.apply(dir)
		if failed != nil {
			return result{}, failed
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	return m.test.run(ctx, dir)
}

// apply changes the file. Restore writes what was there before.
func (e edit) apply(dir string) (restore func() error, err error) {
	name := filepath.Join(dir, filepath.FromSlash(e.file))
	before, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if err := e.check(string(before)); err != nil {
		return nil, err
	}
	after := strings.Replace(string(before), e.old, e.new, 1)
	if err := os.WriteFile(name, []byte(after), 0o600); err != nil {
		return nil, err
	}
	return func() error { return os.WriteFile(name, before, 0o600) }, nil
}

// check returns an error unless the edit changes one place of the text.
func (e edit) check(text string) error {
	if n := strings.Count(text, e.old); n != 1 {
		return fmt.Errorf("%s holds the text %d times, want once: %q", e.file, n, e.old)
	}
	if e.old == e.new {
		return fmt.Errorf("%s: the edit changes nothing", e.file)
	}
	return nil
}
