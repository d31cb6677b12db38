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

// ErrNotEmpty is returned by a [Loader] whose store has rows already. Nothing was
// loaded into it.
var ErrNotEmpty = errors.New("the database is not empty")

// A Dumper reads all rows of a store. Dump calls yield with each timer, ordered by
// tenant and service call, byte by byte; then with the events of the outbox, in
// their order; then with the parked ones, in theirs. All rows are from one
// snapshot. An error of yield ends it and is returned unchanged. Memory use does
// not depend on the number of rows. Yield owns what it is given.
type Dumper interface {
	Dump(ctx context.Context, yield func(Record) error) error
}

// A Loader writes all rows of another store. Load calls next, which returns
// records in the order of [Dumper], until that returns io.EOF, and inserts them
// all in one transaction: if next or an insert fails, or ctx ends, it inserts
// nothing and returns the error. A store that is not empty is refused with
// [ErrNotEmpty]. Events get new numbers, in the same order. Memory use does not
// depend on the number of rows.
type Loader interface {
	Load(ctx context.Context, next func() (Record, error)) error
}

// A DumpLoader is a store that an export can be imported into.
type DumpLoader interface {
	Dumper
	Loader
}

// A Summary is the number of rows of each kind in an export, and a checksum of
// them that does not depend on the kind of the store.
type Summary struct {
	Timers timer.Counts
	Outbox int64  // events that wait for the broker
	Parked int64  // events that the broker refused for good
	SHA256 string // of the lines between the header and the trailer, in hex
}

// Rows returns the number of all rows.
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

// Stages of a transfer, for [Progress].
const (
	StageExport = "exported"
	StageImport = "imported"
	StageVerify = "verified"
)

// Progress is called when n more records have completed a stage. It may be nil.
type Progress func(stage string, n int)

// progressEvery is how many records there are between two calls of a Progress.
const progressEvery = 512

// Export writes all rows of a store as lines of JSON: a header, the records in the
// order of [Dumper], and a trailer with their counts and checksum.
func Export(ctx context.Context, from Dumper, header Header, w io.Writer, progress Progress) (Summary, error) {
	out := bufio.NewWriterSize(w, 1<<16)
	write := func(v any) error {
		line, err := newLineEncoder().line(v)
		if err == nil {
			_, err = out.Write(line)
		}
		return err
	}
	if err := write(newHeaderLine(header)); err != nil {
		return Summary{}, err
	}
	sum, err := summarize(ctx, from, out, newTally(StageExport, progress))
	if err != nil {
		return Summary{}, err
	}
	if err := write(newTrailerLine(sum)); err != nil {
		return Summary{}, err
	}
	return sum, out.Flush()
}

// summarize writes the lines of all records, and returns their summary.
func summarize(ctx context.Context, from Dumper, w io.Writer, t *tally) (Summary, error) {
	encoder := newLineEncoder()
	err := from.Dump(ctx, func(r Record) error {
		line, err := encoder.record(&r)
		if err != nil {
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
// the store back, and compares its rows with the trailer. An error in the file
// begins with the number of the line.
func Import(ctx context.Context, to DumpLoader, r io.Reader, progress Progress) (Summary, error) {
	read := &reading{lines: newLineReader(r), tally: newTally(StageImport, progress), json: newLineEncoder()}
	if _, err := read.header(); err != nil {
		return Summary{}, err
	}
	err := to.Load(ctx, func() (Record, error) {
		if err := ctx.Err(); err != nil {
			return Record{}, err
		}
		return read.next()
	})
	switch {
	case err == nil:
	case read.err != nil && !errors.Is(read.err, io.EOF): // it has the number of the line
		return Summary{}, read.err
	case errors.Is(err, ErrNotEmpty), ctx.Err() != nil:
		return Summary{}, err
	default:
		return Summary{}, fmt.Errorf("at line %d or a little before it: %w", read.lines.number, err)
	}
	held, err := summarize(ctx, to, io.Discard, newTally(StageVerify, progress))
	if err != nil {
		return Summary{}, fmt.Errorf("the import is in the database, but it can't be read back: %w", err)
	}
	if want := read.tally.summary(); held != want {
		return Summary{}, fmt.Errorf("the database does not hold what was imported, but %s with the checksum %s, want %s with %s: do not use it", held, held.SHA256, want, want.SHA256)
	}
	return held, nil
}

// A tally counts records and hashes their lines.
type tally struct {
	sum      Summary
	hash     hash.Hash
	stage    string
	progress Progress
	n        int // records that were not reported yet
}

func newTally(stage string, progress Progress) *tally {
	return &tally{hash: sha256.New(), stage: stage, progress: progress}
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
	if t.n++; t.n == progressEvery {
		t.report()
	}
}

func (t *tally) report() {
	if t.progress != nil && t.n > 0 {
		t.progress(t.stage, t.n)
	}
	t.n = 0
}

// summary returns that of all records added.
func (t *tally) summary() Summary {
	t.report()
	t.sum.SHA256 = hex.EncodeToString(t.hash.Sum(nil))
	return t.sum
}
