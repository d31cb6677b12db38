//go:build unix

package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize returns how many columns and lines a terminal has.
func terminalSize(w io.Writer) (width, height int) {
	if c, ok := w.(*checked); ok {
		w = c.w
	}
	if f, ok := w.(*os.File); ok {
		if s, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && s.Col > 0 && s.Row > 0 { //nolint:gosec // descriptors are small
			return int(s.Col), int(s.Row)
		}
	}
	return defaultWidth, defaultHeight
}
