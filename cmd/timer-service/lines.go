package main

import (
	"bufio"
	"bytes"
	"context"
	"io"

	"github.com/event-service-agent/timer-service/envelope"
)

const (
	maxLine    = envelope.MaxBytes // bytes of the longest command
	maxRead    = 16 << 20          // bytes of a line that ends the reading
	linesAhead = 2 * maxBatch      // how many lines are read ahead
)

// A line is a line of a file with its number.
type line struct {
	number int
	body   []byte
}

// A fileLines is the lines of a file. When the channel all is closed, failed has the error of the
// reader, errInterrupted if lines were left out since ctx has ended, or nil.
type fileLines struct {
	all    <-chan line
	failed <-chan error
}

// readLines reads the lines of a file ahead, and skips empty lines.
func readLines(ctx context.Context, in io.Reader) fileLines {
	lines, failed := make(chan line, linesAhead), make(chan error, 1)
	go func() {
		defer close(lines)
		file := bufio.NewScanner(in)
		file.Buffer(nil, maxRead)
		for number := 1; file.Scan(); number++ {
			body := bytes.TrimSpace(bytes.TrimPrefix(file.Bytes(), []byte("\uFEFF"))) // Windows writes this mark
			if len(body) == 0 {
				continue
			}
			select {
			case lines <- line{number, bytes.Clone(body)}:
			case <-ctx.Done():
				failed <- errInterrupted
				return
			}
		}
		failed <- file.Err()
	}()
	return fileLines{lines, failed}
}
