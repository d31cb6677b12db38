package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/event-service-agent/timer-service/envelope"
)

// maxLine is the longest line, in bytes: no command is longer.
const maxLine = envelope.MaxBytes

// linesAhead is how many lines are read ahead.
const linesAhead = 2 * maxBatch

var errLongLine = fmt.Errorf("longer than %d KiB", maxLine>>10)

// A line is a line of a file with its number.
type line struct {
	number int
	body   []byte
	err    error // why there is no body
}

// A fileLines is the lines of a file. When the channel all is closed, failed gets the error
// of the reader, or nil.
type fileLines struct {
	all    <-chan line
	failed <-chan error
}

// readLines reads the lines of a file ahead, and skips empty lines.
func readLines(ctx context.Context, in io.Reader) fileLines {
	lines, failed := make(chan line, linesAhead), make(chan error, 1)
	go func() {
		err := splitLines(in, func(l line) bool {
			select {
			case lines <- l:
				return true
			case <-ctx.Done():
				return false
			}
		})
		close(lines)
		failed <- err
	}()
	return fileLines{lines, failed}
}

// splitLines calls yield with each line until it returns false.
func splitLines(in io.Reader, yield func(line) bool) error {
	r := bufio.NewReader(in)
	for number := 1; ; number++ {
		raw, err := readLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if number == 1 {
			raw = bytes.TrimPrefix(raw, []byte("\uFEFF")) // Windows writes this mark
		}
		l := line{number: number, body: bytes.TrimSpace(raw)}
		if len(l.body) > maxLine {
			l = line{number: number, err: errLongLine}
		}
		if (len(l.body) > 0 || l.err != nil) && !yield(l) || err != nil {
			return nil
		}
	}
}

// readLine returns a line with its end. If the line is much longer than maxLine, it returns
// the beginning, which has more than maxLine bytes, and skips the rest.
func readLine(r *bufio.Reader) ([]byte, error) {
	read, err := r.ReadSlice('\n')
	raw := bytes.Clone(read)
	for errors.Is(err, bufio.ErrBufferFull) {
		read, err = r.ReadSlice('\n')
		if len(raw) <= maxLine {
			raw = append(raw, read...)
		}
	}
	return raw, err
}
