package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/event-service-agent/timer-service/timer"
)

// maxLine is the longest line, in bytes.
const maxLine = 16 << 20

// A lineReader reads the lines of an export, and counts them.
type lineReader struct {
	*bufio.Scanner
	number int // of the last line
}

func newLineReader(r io.Reader) *lineReader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<16), maxLine)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) { // at \n alone, as opposed to ScanLines
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			return end + 1, data[:end], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	return &lineReader{Scanner: s}
}

// at returns an error that begins with the number of the line.
func (l *lineReader) at(err error) error { return fmt.Errorf("line %d: %w", l.number, err) }

// next returns a line without its end, which is valid until the next call, or
// io.EOF. The number of the line after an io.EOF is that of the missing one.
func (l *lineReader) next() ([]byte, error) {
	l.number++
	if l.Scan() && l.Err() == nil { // after an error there is a piece of a line
		return l.Bytes(), nil
	}
	switch err := l.Err(); {
	case err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, l.at(fmt.Errorf("it has more than %d bytes", maxLine))
	default:
		return nil, l.at(err)
	}
}

// A reading iterates over the records of an export, after its header.
type reading struct {
	lines *lineReader
	tally *tally
	json  *lineEncoder
	stage int       // index of the kind of the last record in the order of kinds
	last  timer.Key // of the last timer
	err   error     // what ended it
}

// header reads the first line.
func (r *reading) header() (Header, error) {
	line, err := r.lines.next()
	if errors.Is(err, io.EOF) {
		return Header{}, r.lines.at(errors.New("the file is empty"))
	}
	if err != nil {
		return Header{}, err
	}
	// The version first: the other fields of a newer one are not known.
	var format struct {
		Kind    string `json:"kind"`
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(line, &format); err != nil || format.Kind != kindHeader || format.Format != formatName {
		return Header{}, r.lines.at(errors.New("this is not an export of the timer service"))
	}
	if format.Version != formatVersion {
		return Header{}, r.lines.at(fmt.Errorf("the export has version %d, this binary knows %d: use a newer binary", format.Version, formatVersion))
	}
	var l headerLine
	if err := strict(line, &l); err != nil {
		return Header{}, r.lines.at(err)
	}
	h := Header{Source: l.Source, SchemaVersion: l.SchemaVersion, ExportedAt: time.Time(l.ExportedAt)}
	if err := r.json.matches(line, newHeaderLine(h)); err != nil {
		return Header{}, r.lines.at(err)
	}
	return h, nil
}

// next returns the next record. After the trailer, if that is right, it returns
// io.EOF. Every other error begins with the number of the line.
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
		return Record{}, r.lines.at(errors.New("the file ends here, without a trailer: it is incomplete"))
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
	return record, nil
}

// kindOf returns the kind of a line, which is its first field, or "".
func kindOf(line []byte) string {
	rest, found := bytes.CutPrefix(line, []byte(`{"kind":"`))
	kind, _, ended := bytes.Cut(rest, []byte(`"`))
	if !found || !ended {
		return ""
	}
	return string(kind)
}

// record decodes a line, which must be in order.
func (r *reading) record(kind Kind, line []byte) (record Record, err error) {
	record.Kind = kind
	stage := slices.Index([]Kind{KindTimer, KindOutbox, KindParked}, kind)
	switch {
	case stage < 0:
		err = fmt.Errorf(`it begins with %s, want {"kind":"timer", "event", "parked" or "trailer"`, timer.Quote(string(line)))
	case kind == KindTimer:
		record.Timer, err = decodeTimer(line)
	default:
		record.Event, err = decodeEvent(line, kind)
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
	again, err := r.json.record(&record)
	if err != nil {
		return record, err
	}
	r.tally.add(&record, again)
	return record, sameLine(line, again)
}

// trailer compares the last line with the records before it.
func (r *reading) trailer(line []byte) error {
	var l trailerLine
	if err := strict(line, &l); err != nil {
		return r.lines.at(err)
	}
	want := Summary{
		Timers: timer.Counts{Scheduled: l.Scheduled, Reached: l.Reached, Canceled: l.Canceled},
		Outbox: l.Outbox, Parked: l.Parked, SHA256: l.SHA256,
	}
	if err := r.json.matches(line, l); err != nil {
		return r.lines.at(err)
	}
	got := r.tally.summary()
	switch {
	case got.SHA256 != want.SHA256:
		return r.lines.at(fmt.Errorf("the checksum is %s, that of the lines before it %s: the file was changed", want.SHA256, got.SHA256))
	case got != want:
		return r.lines.at(fmt.Errorf("the counts are %s, those of the lines before it %s", want, got))
	}
	if _, err := r.lines.next(); !errors.Is(err, io.EOF) {
		return r.lines.at(errors.New("more lines follow the trailer"))
	}
	return nil
}
