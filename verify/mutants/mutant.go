package main

import (
	"context"
	"errors"
	"os"
)

// A mutant is one wrong version of the code, which breaks a promise.
type mutant struct {
	promise string   // its number: I1 and so on for promises of the service
	name    string   // what goes wrong
	changes []change // more than one where the code checks twice
	test    test     // has to fail
}

// breaks is a line of the lists.
func breaks(promise, name string, fails test, changes ...change) mutant {
	return mutant{promise, name, changes, fails}
}

func (m mutant) String() string { return m.promise + " " + m.name }

// try applies the mutant to the module in dir, runs its test, and undoes it.
func (m mutant) try(ctx context.Context, dir string) (_ result, err error) {
	restore, err := m.apply(dir)
	defer func() { err = errors.Join(err, restore()) }()
	if err != nil {
		return result{}, err
	}
	return m.test.run(ctx, dir)
}

// apply makes the changes, one after the other. Restore, which is never nil,
// writes the original text.
func (m mutant) apply(dir string) (restore func() error, err error) {
	originals := make(map[string][]byte)
	restore = func() (err error) {
		for name, text := range originals {
			err = errors.Join(err, os.WriteFile(name, text, 0o600))
		}
		return err
	}
	for _, c := range m.changes {
		files, err := c.rewrite(dir)
		if err != nil {
			return restore, err
		}
		for name, text := range files {
			if _, known := originals[name]; !known {
				if originals[name], err = os.ReadFile(name); err != nil {
					return restore, err
				}
			}
			if err := os.WriteFile(name, text, 0o600); err != nil {
				return restore, err
			}
		}
	}
	return restore, nil
}
