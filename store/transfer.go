package store

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// ErrNotEmpty says that a store holds something already, so nothing was loaded
// into it.
var ErrNotEmpty = errors.New("the database is not empty")

// A Dumper tells all that a store holds. Dump calls yield with each timer,
// ordered by tenant and service call, byte by byte; then with the events of the
// outbox, in their order; then with the parked ones, in theirs. All of it is of
// one moment. An error of yield ends it and is returned as it is. However much
// there is, memory does not grow with it. What yield gets is its own.
type Dumper interface {
	Dump(ctx context.Context, yield func(Record) error) error
}

// A Loader takes all that another store held. Load calls next, which returns
// records in the order in which [Dumper] tells them, until that returns io.EOF,
// and keeps them all in one transaction: if next or anything else fails, or ctx
// ends, it keeps nothing and returns the error. A store that is not empty is
// refused with [ErrNotEmpty]. Events get new numbers, in the same order. However
// much there is, memory does not grow with it.
type Loader interface {
	Load(ctx context.Context, next func() (Record, error)) error
}

// A DumpLoader is a store that an export can be imported into.
type DumpLoader interface {
	Dumper
	Loader
}

// A Summary says what an export holds: how many rows of each kind, and a
// checksum over them that is the same whatever store they come from.
type Summary struct {
	Timers timer.Counts
	Outbox int64  // events that wait for the broker
	Parked int64  // events that the broker refused for good
	SHA256 string // of the lines between the header and the trailer, in hex
}

// Rows is how many rows there are in all.
func (s Summary) Rows() int64 {
	return s.Timers.Scheduled + s.Timers.Reached + s.Timers.Canceled + s.Outbox + s.Parked
}

// String returns the counts for people.
func (s Summary) String() string {
	return fmt.Sprintf("%d timers (%d Scheduled, %d Reached, %d Canceled), %d events, %d parked",
		s.Timers.Scheduled+s.Timers.Reached+s.Timers.Canceled, s.Timers.Scheduled, s.Timers.Reached, s.Timers.Canceled, s.Outbox, s.Parked)
}

// A Header is the first line of an export.
type Header struct {
	Source        string    // kind of the store: sqlite, postgres
	SchemaVersion int64     // of the store
	ExportedAt    time.Time // when the export began
}

// Stages of work that takes long, as they are told.
const (
	StageExport = "exported"
	StageImport = "imported"
	StageVerify = "verified"
)

// A Tell hears how far long work is: n more records have passed a stage. It may
// be nil.
type Tell func(stage string, n int)

// tellEvery is how many records pass between two calls of a Tell.
const tellEvery = 512

// Export writes all that a store holds as lines of JSON: a header, the records
// as [Dumper] tells them, and a trailer with their counts and checksum.
func Export(ctx context.Context, from Dumper, header Header, w io.Writer, tell Tell) (Summary, error) {
	out := bufio.NewWriterSize(w, 1<<16)
	if _, err := out.Write(appendHeader(nil, header)); err != nil {
		return Summary{}, err
	}
	sum, err := summarize(ctx, from, out, StageExport, tell)
	if err != nil {
		return Summary{}, err
	}
	if _, err := out.Write(appendTrailer(nil, sum)); err != nil {
		return Summary{}, err
	}
	return sum, out.Flush()
}

// summarize writes the lines of all records, and returns what they are.
func summarize(ctx context.Context, from Dumper, w io.Writer, stage string, tell Tell) (Summary, error) {
	t := newTally(stage, tell)
	var line []byte
	err := from.Dump(ctx, func(r Record) (err error) {
		if line, err = appendRecord(line[:0], &r); err != nil {
			return err
		}
		t.add(&r, line)
		_, err = w.Write(line)
		return err
	})
	if err != nil {
		return Summary{}, err
	}
	return t.summary(), nil
}

// Import loads an export into a store that is empty, all of it or nothing, reads
// the store back, and compares what it holds with the trailer. An error that is
// the file's fault begins with the number of the line.
func Import(ctx context.Context, to DumpLoader, r io.Reader, tell Tell) (Summary, error) {
	in := newLineReader(r)
	if _, err := in.header(); err != nil {
		return Summary{}, err
	}
	read := &reading{lines: in, tally: newTally(StageImport, tell)}
	err := to.Load(ctx, func() (Record, error) {
		if err := ctx.Err(); err != nil {
			return Record{}, err
		}
		return read.next()
	})
	switch {
	case err == nil:
	case read.err != nil && !errors.Is(read.err, io.EOF): // it has the line
		return Summary{}, read.err
	case errors.Is(err, ErrNotEmpty), ctx.Err() != nil:
		return Summary{}, err
	default:
		return Summary{}, fmt.Errorf("at line %d or a little before it: %w", in.number, err)
	}
	held, err := summarize(ctx, to, io.Discard, StageVerify, tell)
	if err != nil {
		return Summary{}, fmt.Errorf("read back what was imported, and is in the database: %w", err)
	}
	if want := read.tally.summary(); held != want {
		return Summary{}, fmt.Errorf("the database does not hold what was imported, but %s with the checksum %s, want %s with %s: do not use it", held, held.SHA256, want, want.SHA256)
	}
	return held, nil
}

// A tally counts records and adds up their lines.
type tally struct {
	sum   Summary
	hash  hash.Hash
	stage string
	tell  Tell
	n     int // records that were not told yet
}

func newTally(stage string, tell Tell) *tally {
	return &tally{hash: sha256.New(), stage: stage, tell: tell}
}

func (t *tally) add(r *Record, line []byte) {
	_, _ = t.hash.Write(line) // never fails
	switch r.Kind {
	case KindOutbox:
		t.sum.Outbox++
	case KindParked:
		t.sum.Parked++
	default:
		switch r.Timer.State {
		case timer.Scheduled:
			t.sum.Timers.Scheduled++
		case timer.Reached:
			t.sum.Timers.Reached++
		case timer.Canceled:
			t.sum.Timers.Canceled++
		}
	}
	if t.n++; t.n == tellEvery {
		t.told()
	}
}

func (t *tally) told() {
	if t.tell != nil && t.n > 0 {
		t.tell(t.stage, t.n)
	}
	t.n = 0
}

// summary returns what was added.
func (t *tally) summary() Summary {
	t.told()
	t.sum.SHA256 = hex.EncodeToString(t.hash.Sum(nil))
	return t.sum
}
