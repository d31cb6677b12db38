package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
)

// maxLine is the longest line, in bytes: more than any broker accepts by default.
const maxLine = 1 << 20

// linesAhead is how many lines are read ahead.
const linesAhead = 2 * maxBatch

var errLongLine = errors.New("longer than 1 MiB")

// A line is one body of a file, and the number of its first line.
type line struct {
	number int
	body   []byte
	err    error // why there is no body
}

// readLines reads bodies, one a line, or one JSON object over several lines that
// is the whole file. Empty lines are left out. After lines is closed, failed gets
// the error of the reader, or nil.
func readLines(ctx context.Context, in io.Reader) (_ <-chan line, failed <-chan error) {
	lines, ended := make(chan line, linesAhead), make(chan error, 1)
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
		ended <- err
	}()
	return lines, ended
}

// splitLines calls yield with each body until it returns false.
func splitLines(in io.Reader, yield func(line) bool) error {
	r, first := bufio.NewReader(in), true
	for number := 1; ; number++ {
		raw, err := readLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		l := line{number: number, body: bytes.TrimSpace(raw)}
		if len(raw) > maxLine {
			l = line{number: number, err: errLongLine}
		}
		if len(l.body) > 0 || l.err != nil {
			if first && err == nil && bytes.HasPrefix(l.body, []byte("{")) && !json.Valid(l.body) {
				whole, rest := readObject(io.MultiReader(bytes.NewReader(raw), r))
				if whole != nil {
					yield(line{number: number, body: whole})
					return nil
				}
				r = bufio.NewReader(rest)
				_, _ = readLine(r)
			}
			if first = false; !yield(l) {
				return nil
			}
		}
		if err != nil {
			return nil
		}
	}
}

// readObject returns the object that is all of a reader, or nil, and what there was to
// read. It reads no more than it takes to decide that.
func readObject(in io.Reader) (whole []byte, rest io.Reader) {
	var read bytes.Buffer
	d := json.NewDecoder(io.TeeReader(io.LimitReader(in, maxLine), &read))
	var object json.RawMessage
	if d.Decode(&object) == nil {
		if _, err := d.Token(); errors.Is(err, io.EOF) && read.Len() < maxLine {
			return object, nil
		}
	}
	return nil, io.MultiReader(&read, in)
}

// readLine returns a line with its end. Of one that is longer than maxLine it
// returns the beginning, more than maxLine bytes, and skips the rest.
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
