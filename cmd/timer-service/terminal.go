package main

import (
	"os"

	"golang.org/x/term"
)

// The default size is used if the output is not a terminal.
const defaultWidth, defaultHeight = 80, 24

// terminalOf returns the descriptor of a reader or writer if it is a terminal, else -1.
func terminalOf(w any) int {
	if c, ok := w.(*checked); ok {
		w = c.w
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) { //nolint:gosec // descriptors are small
		return int(f.Fd()) //nolint:gosec // descriptors are small
	}
	return -1
}

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(w any) bool { return terminalOf(w) >= 0 }

// terminalSize returns how many columns and lines a terminal has.
func terminalSize(w any) (width, height int) {
	width, height, err := term.GetSize(terminalOf(w))
	if err != nil || width <= 0 || height <= 0 {
		return defaultWidth, defaultHeight
	}
	return width, height
}
