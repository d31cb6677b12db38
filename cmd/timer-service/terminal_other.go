//go:build !unix

package main

import "io"

// terminalSize returns how many columns and lines a terminal has at least.
func terminalSize(io.Writer) (width, height int) { return defaultWidth, defaultHeight }
