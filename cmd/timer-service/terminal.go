package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a reader is a terminal.
func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // descriptors are small
}
