package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/event-service-agent/timer-service/timer"
)

// A reading goes over the records of an export, behind its header.
type reading struct {
	lines *lineReader
	tally *tally
	stage int       // of the last record: place in the order of kinds
	last  timer.Key // of the last timer
	again []byte    // a record as it is to be written
	err   error     // what ended it
}

// next returns the next record. After the trailer, if that is right, it returns
// io.EOF. Every error but that begins with the number of the line.
func (r *reading) next() (Record, error) {
	if r.err != nil {
		return Record{}, r.err
	}
	var record Record
	record, r.err = r.read()
	return record, r.err
}

func (r *reading) read() (Record, error) {
	line, err := r.lines.next()
	if errors.Is(err, io.EOF) {
		return Record{}, r.lines.at(errors.New("the file ends here, without a trailer: it is not whole"))
	}
	if err != nil {
		return Record{}, err
	}
	kind := kindOf(line)
	if kind == kindTrailer {
		if err := r.trailer(line); err != nil {
			return Record{}, err
		}
		return Record{}, io.EOF
	}
	record, err := r.record(Kind(kind), line)
	if err != nil {
		return Record{}, r.lines.at(err)
	}
	r.tally.add(&record, r.again)
	return record, nil
}

// kindOf returns what a line says that it is, or "". All begin with it.
func kindOf(line []byte) string {
	rest, found := bytes.CutPrefix(line, []byte(`{"kind":"`))
	kind, _, ended := bytes.Cut(rest, []byte(`"`))
	if !found || !ended {
		return ""
	}
	return string(kind)
}

// record decodes a line, which must be in its place.
func (r *reading) record(kind Kind, line []byte) (record Record, err error) {
	record.Kind = kind
	stage := 0
	switch kind {
	case KindTimer:
		record.Timer, err = decodeTimer(line)
	case KindOutbox:
		stage = 1
		record.Event, err = decodeEvent(line, kind)
	case KindParked:
		stage = 2
		record.Event, err = decodeEvent(line, kind)
	default:
		return record, fmt.Errorf(`it begins with %s, want {"kind":"timer", "event", "parked" or "trailer"`, timer.Quote(string(line)))
	}
	if err != nil {
		return record, err
	}
	switch {
	case stage < r.stage:
		return record, errors.New("it is out of order: timers come first, then events, then parked ones")
	case kind == KindTimer && r.last.Compare(record.Timer.Key) >= 0:
		return record, fmt.Errorf("timer %s does not come after %s: they are ordered by tenant and service call, each once", record.Timer.Key, r.last)
	}
	r.stage, r.last = stage, record.Timer.Key
	if r.again, err = appendRecord(r.again[:0], &record); err != nil {
		return record, err
	}
	if !bytes.Equal(bytes.TrimSuffix(r.again, newline), line) {
		return record, errForm
	}
	return record, nil
}

// trailer compares the last line with what was before it.
func (r *reading) trailer(line []byte) error {
	want, err := decodeTrailer(line)
	if err != nil {
		return r.lines.at(err)
	}
	got := r.tally.summary()
	switch {
	case !bytes.Equal(bytes.TrimSuffix(appendTrailer(nil, want), newline), line):
		return r.lines.at(errForm)
	case got.SHA256 != want.SHA256:
		return r.lines.at(fmt.Errorf("the checksum is %s, that of the lines before it %s: the file was changed", want.SHA256, got.SHA256))
	case got != want:
		return r.lines.at(fmt.Errorf("the counts are %s, those of the lines before it %s", want, got))
	}
	if _, err := r.lines.next(); !errors.Is(err, io.EOF) {
		return r.lines.at(errors.New("there is something behind the trailer"))
	}
	return nil
}
