package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A movedTrailer is the last line of a file with the commands of a tenant, so that one
// that was cut is recognized.
type movedTrailer struct {
	Kind     string `json:"kind"`
	Commands int    `json:"commands"` // lines before it
}

const kindTrailer = "trailer"

// A movedReader reads the commands of such a file, without the trailer. It fails at its
// end if the trailer is missing or counts others.
type movedReader struct {
	in    *bufio.Reader
	lines int    // that were read
	rest  []byte // of the last one
}

func newMovedReader(in io.Reader) *movedReader { return &movedReader{in: bufio.NewReader(in)} }

// Read implements [io.Reader].
func (r *movedReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		line, err := r.in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		var last movedTrailer
		switch {
		case json.Unmarshal(line, &last) == nil && last.Kind == kindTrailer:
			return 0, r.end(last)
		case err != nil:
			return 0, fmt.Errorf("line %d: the file ends here, without a trailer: it is incomplete", r.lines+1)
		}
		r.rest = line
		r.lines++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// end returns [io.EOF] if the file is complete.
func (r *movedReader) end(last movedTrailer) error {
	if last.Commands != r.lines {
		return fmt.Errorf("line %d: the trailer counts %d commands, there are %d: lines are missing, or were added", r.lines+1, last.Commands, r.lines)
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("line %d: something follows the trailer", r.lines+2)
	}
	return io.EOF
}

// checkMoved returns an error if the file with the commands of a tenant is incomplete, of
// which nothing is to be published then. Of stdin this is seen only at its end.
func (e *env) checkMoved(verb, file string) error {
	if file == "-" {
		return nil
	}
	in, err := e.input(verb, file)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := io.Copy(io.Discard, newMovedReader(in)); err != nil {
		return fmt.Errorf("%s: %w; nothing was published", file, err)
	}
	return nil
}
