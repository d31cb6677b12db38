package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/event-service-agent/timer-service/timer"
)

// These are the longest lines, in bytes. A message has at most what the inbox takes of a tenant (64
// MiB unless that is set), and base64 adds a third.
const (
	maxLine        = 4 << 20
	maxMessageLine = 128 << 20
)

// readExport reads an export, calls yield with each of its timers and yieldMessage with each of
// its messages, and compares their numbers with the trailer. An error in the file begins with
// the number of the line; an error of a function is returned as it is. Only a nil error says
// that the file is whole, so the functions must not rely on that.
func readExport(r io.Reader, yield func(timer.Entry) error, yieldMessage func(timer.InboxMessage) error) (Summary, error) {
	lines := newLineReader(r)
	if err := lines.header(); err != nil {
		return Summary{}, err
	}
	t := newTally("", nil)
	for last := (timer.Key{}); ; {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return Summary{}, lines.at(errors.New("the file ends here, without a trailer: it is incomplete"))
		}
		if err != nil {
			return Summary{}, err
		}
		switch kindOf(line) {
		case kindTrailer:
			sum := t.summary()
			return sum, lines.trailer(line, sum)
		case kindTimer:
			if t.sum.Messages > 0 {
				return Summary{}, lines.at(errors.New("a timer comes after a message"))
			}
		case kindMessage:
			m, err := decodeMessage(line)
			if err != nil {
				return Summary{}, lines.at(err)
			}
			t.addMessage(append(line, '\n'))
			if err := yieldMessage(m); err != nil {
				return Summary{}, err
			}
			continue
		case kindEvent, kindParked:
			return Summary{}, lines.at(errors.New("it is an event, which is not imported: start the service that wrote this until no event waits and none is parked, and export again"))
		default:
			return Summary{}, lines.at(fmt.Errorf(`it begins with %s, want {"kind":"timer", "message" or "trailer"`, timer.Quote(string(line))))
		}
		e, err := decodeTimer(line)
		if err == nil && last.Compare(e.Key) >= 0 {
			err = fmt.Errorf("timer %s does not come after %s: they are ordered by tenant and service call, each once", e.Key, last)
		}
		if err != nil {
			return Summary{}, lines.at(err)
		}
		last = e.Key
		t.add(e.State, append(line, '\n'))
		if err := yield(e); err != nil {
			return Summary{}, err
		}
	}
}

// A lineReader reads the lines of an export, and counts them.
type lineReader struct {
	*bufio.Scanner
	number int // of the last line
}

func newLineReader(r io.Reader) *lineReader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 1<<16), maxMessageLine)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) { // at \n alone, as opposed to ScanLines
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			return end + 1, data[:end:end], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data[:len(data):len(data)], nil
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
		line := l.Bytes()
		if len(line) > maxLine && kindOf(line) != kindMessage {
			return nil, l.at(fmt.Errorf("it has more than %d bytes", maxLine))
		}
		return line, nil
	}
	switch err := l.Err(); {
	case err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, l.at(fmt.Errorf("it has more than %d bytes", maxMessageLine))
	default:
		return nil, l.at(err)
	}
}

// header reads the first line, which must be that of an export.
func (l *lineReader) header() error {
	line, err := l.next()
	if errors.Is(err, io.EOF) {
		return l.at(errors.New("the file is empty"))
	}
	if err != nil {
		return err
	}
	var h headerLine
	err = json.Unmarshal(line, &h)
	switch {
	case h.Kind != kindHeader || h.Format != formatName: // which come first, whatever follows
		err = errors.New("this is not an export of the timer service")
	case h.Version != formatVersion:
		err = fmt.Errorf("the export has version %d, this binary knows %d: use a newer binary", h.Version, formatVersion)
	case err != nil:
		err = plain(err)
	case h.TenantID != "":
		err = fmt.Errorf("it has the timers of tenant %s alone: import it with version 0.1.0, which wrote it", h.TenantID)
	default:
		return nil
	}
	return l.at(err)
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

// trailer compares the last line with the timers before it.
func (l *lineReader) trailer(line []byte, got Summary) error {
	var t trailerLine
	if err := strict(line, &t); err != nil {
		return l.at(err)
	}
	want := Summary{Timers: timer.Counts{Scheduled: t.Scheduled, Reached: t.Reached, Expired: t.Expired, Canceled: t.Canceled}, Messages: t.Messages, SHA256: t.SHA256}
	switch {
	case got.SHA256 != want.SHA256:
		return l.at(fmt.Errorf("the checksum is %s, that of the lines before it %s: the file was changed", want.SHA256, got.SHA256))
	case got != want:
		return l.at(fmt.Errorf("the counts are %s, those of the lines before it %s", want, got))
	}
	switch _, err := l.next(); {
	case err == nil:
		return l.at(errors.New("more lines follow the trailer"))
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}
