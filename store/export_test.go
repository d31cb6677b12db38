package store

import (
	"io"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// ReadExport returns the timers of an export.
func ReadExport(r io.Reader) (entries []timer.Entry, err error) {
	_, err = readExport(r, func(e timer.Entry) error {
		entries = append(entries, e)
		return nil
	}, func(timer.InboxMessage) error { return nil })
	return entries, err
}

// WriteExport writes an export of timers that each calls yield with, in order.
func WriteExport(w io.Writer, at time.Time, each func(yield func(*timer.Entry) error) error) error {
	_, err := writeExport(w, at, newTally(StageExport, nil), each, func(func(*timer.InboxMessage) error) error { return nil })
	return err
}
