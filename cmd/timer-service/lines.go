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

// splitLines calls yield with each body until it returns false. While the first
// lines may be one object they are kept back, until that is decided.
func splitLines(in io.Reader, yield func(line) bool) error {
	r := bufio.NewReader(in)
	var kept []line // the lines that are kept back; nil if none are
	var text []byte // what was read since the first of them
	check := 0      // how long the text is when it is decoded again
	first := true
	for number := 1; ; number++ {
		raw, err := readLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		l := line{number: number, body: bytes.TrimSpace(raw)}
		if len(raw) > maxLine {
			l = line{number: number, err: errLongLine}
		}
		empty := len(l.body) == 0 && l.err == nil
		if first && !empty {
			first = false
			if l.err == nil && l.body[0] == '{' && !json.Valid(l.body) {
				kept = []line{}
			}
		}
		if kept == nil {
			if !empty && !yield(l) {
				return nil
			}
		} else {
			text = append(text, raw...)
			if !empty {
				kept = append(kept, l)
			}
			undecided := true
			if len(text) >= check { // decoding reads the whole text, so each time it must have doubled
				undecided, check = isPrefix(text), 2*len(text)
			}
			if err == nil && undecided && len(text) <= maxLine && l.err == nil {
				continue
			}
			if whole := bytes.TrimSpace(text); err != nil && len(kept) > 1 && json.Valid(whole) {
				kept = []line{{number: kept[0].number, body: whole}}
			}
			for _, l := range kept {
				if !yield(l) {
					return nil
				}
			}
			kept = nil
		}
		if err != nil {
			return nil
		}
	}
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

// isPrefix reports whether a text is one JSON value, or may be the beginning of one.
func isPrefix(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return errors.Is(err, io.ErrUnexpectedEOF)
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}
