package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
)

// maxLine is the longest line, in bytes: more than any broker takes by default.
const maxLine = 1 << 20

// linesAhead is how many lines are read before they are asked for.
const linesAhead = 2 * maxBatch

var errLongLine = errors.New("longer than 1 MiB")

// A line is one body of a file, and the number of the line that it begins with.
type line struct {
	number int
	body   []byte
	err    error // why there is no body
}

// readLines reads bodies, one a line, or one that is all there is. Lines without
// anything are left out. Failed gets the error of the reader, or nil, after the
// lines were closed.
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
	r := bufio.NewReader(in)
	var held []line // the first lines, while they may be one body
	var text []byte // what is held, with what is between
	look := 0       // how long the text is when it is looked at again
	first := true
	for number := 1; ; number++ {
		read, err := r.ReadSlice('\n')
		raw := bytes.Clone(read)
		for errors.Is(err, bufio.ErrBufferFull) {
			read, err = r.ReadSlice('\n')
			if len(raw) <= maxLine {
				raw = append(raw, read...)
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		l := line{number: number, body: bytes.TrimSpace(raw)}
		if len(raw) > maxLine {
			l = line{number: number, err: errLongLine}
		}
		empty := len(l.body) == 0 && l.err == nil
		if first && !empty {
			// An object that goes on is not complete after its first line.
			first = false
			if l.err == nil && l.body[0] == '{' && !json.Valid(l.body) {
				held = []line{}
			}
		}
		switch {
		case held != nil:
			text = append(text, raw...)
			if !empty {
				held = append(held, l)
			}
			hope := true
			if len(text) >= look { // seldom: whoever looks reads all of it
				hope, look = begins(text), 2*len(text)
			}
			if err == nil && hope && len(text) <= maxLine && l.err == nil {
				continue
			}
			if whole := bytes.TrimSpace(text); err != nil && len(held) > 1 && json.Valid(whole) {
				held = []line{{number: held[0].number, body: whole}}
			}
			for _, l := range held {
				if !yield(l) {
					return nil
				}
			}
			held = nil
		case !empty && !yield(l):
			return nil
		}
		if err != nil {
			return nil
		}
	}
}

// begins reports whether a text may be the beginning of one JSON value, or the
// whole. If not, the lines that follow need not wait for its end.
func begins(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return errors.Is(err, io.ErrUnexpectedEOF)
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}
