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
	"math"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// ErrNotEmpty is returned by [Exported.Import] if the store holds timers, events or messages already.
// Nothing was imported.
var ErrNotEmpty = errors.New("the database is not empty")

// A Source is a database that an export is read from. A type that embeds a [Reader] is one.
type Source interface {
	timer.Reader
	Waiting(ctx context.Context, after int64, limit int) ([]timer.InboxMessage, error)
}

// A Target is a store that an export can be imported into.
type Target interface {
	timer.Commands
	Source
	timer.Recoverer
	Inbox() timer.Inbox
}

// A Summary is the number of timers and of messages in an export, and a checksum of them that
// does not depend on the kind of the store.
type Summary struct {
	Timers   timer.Counts
	Messages int64  // that wait
	SHA256   string // of the lines between the header and the trailer, in hex
}

// String returns the counts for people.
func (s Summary) String() string {
	text := fmt.Sprintf("%d timers (%d Scheduled, %d Reached, %d Expired, %d Canceled)", s.Timers.Total(), s.Timers.Scheduled, s.Timers.Reached, s.Timers.Expired, s.Timers.Canceled)
	if s.Messages > 0 {
		text += fmt.Sprintf(" and %d messages that wait", s.Messages)
	}
	return text
}

// Stages of a transfer, for [Progress].
const (
	StageExport = "exported"
	StageCheck  = "checked"
	StageImport = "imported"
	StageVerify = "verified"
)

// Progress is called when n more timers have completed a stage. It may be nil.
type Progress func(stage string, n int)

// progressEvery is how many timers there are between two calls of a Progress.
const progressEvery = 512

// Export writes the timers of all tenants as lines of JSON: a header, with the time at which the
// export began, the timers ordered by tenant and service call, the messages that wait in the
// inbox, and a trailer with their counts and checksum. The store should not change meanwhile:
// it is read page by page. Events are not exported, so Export refuses a store where some wait
// for the broker, or are parked.
func Export(ctx context.Context, from Source, at time.Time, w io.Writer, progress Progress) (Summary, error) {
	switch st, err := from.Stats(ctx, ""); {
	case err != nil:
		return Summary{}, err
	case st.Outbox > 0 || st.Parked > 0:
		return Summary{}, fmt.Errorf("events wait for the broker (%d) or are parked (%d), and an export has none of them: start the service until stats prints neither, retry or discard the parked events, then stop the service and export again", st.Outbox, st.Parked)
	}
	return exportAll(ctx, from, at, w, newTally(StageExport, progress))
}

// exportAll writes an export, as [Export] does.
func exportAll(ctx context.Context, from Source, at time.Time, w io.Writer, t *tally) (Summary, error) {
	return writeExport(w, at, t,
		func(yield func(*timer.Entry) error) error { return timers(ctx, from, yield) },
		func(yield func(*timer.InboxMessage) error) error { return messages(ctx, from, yield) })
}

func writeExport(w io.Writer, at time.Time, t *tally, each func(func(*timer.Entry) error) error, eachMessage func(func(*timer.InboxMessage) error) error) (Summary, error) {
	out := bufio.NewWriterSize(w, 1<<16)
	lines := newLineWriter(out, t)
	if err := lines.write(newHeaderLine(at)); err != nil {
		return Summary{}, err
	}
	if err := each(lines.timer); err != nil {
		return Summary{}, err
	}
	if err := eachMessage(lines.message); err != nil {
		return Summary{}, err
	}
	sum := t.summary()
	if err := lines.write(newTrailerLine(sum)); err != nil {
		return Summary{}, err
	}
	return sum, out.Flush()
}

// timers calls yield with each timer, in order.
func timers(ctx context.Context, from Source, yield func(*timer.Entry) error) error {
	for after := timer.TenantID(""); ; {
		tenants, err := from.Tenants(ctx, after, timer.MaxPage)
		if err != nil || len(tenants) == 0 {
			return err
		}
		for _, c := range tenants {
			after = c.TenantID
			if err := timersOf(ctx, from, after, yield); err != nil {
				return err
			}
		}
	}
}

// timersOf calls yield with each timer of a tenant, in order.
func timersOf(ctx context.Context, from Source, tenant timer.TenantID, yield func(*timer.Entry) error) error {
	filter := timer.Filter{TenantID: tenant, Limit: timer.MaxPage}
	return timer.EachPage(ctx, &filter, from.List, func(entries []timer.Entry) error {
		for i := range entries {
			if err := yield(&entries[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// messages calls yield with each message that waits, in the order of their numbers.
func messages(ctx context.Context, from Source, yield func(*timer.InboxMessage) error) error {
	for after := int64(0); ; {
		some, err := from.Waiting(ctx, after, messagePage)
		if err != nil || len(some) == 0 {
			return err
		}
		for i := range some {
			if err := yield(&some[i]); err != nil {
				return err
			}
		}
		after = some[len(some)-1].Seq
	}
}

// messagePage is how many messages are read or put at once, which have up to a megabyte each.
const messagePage = 64

// An Exported is a file with an export that is whole. [Check] makes one.
type Exported struct {
	file     io.ReadSeeker
	progress Progress
}

// Check reads a file with an export to its end. The error begins with the number of the line
// that is wrong.
func Check(ctx context.Context, file io.ReadSeeker, progress Progress) (Exported, error) {
	checked := newTally(StageCheck, progress)
	if _, err := readExport(file, func(timer.Entry) error { checked.count(); return ctx.Err() }, func(timer.InboxMessage) error { return ctx.Err() }); err != nil {
		return Exported{}, err
	}
	checked.report()
	_, err := file.Seek(0, io.SeekStart)
	return Exported{file, progress}, err
}

// Import adds the timers of an export to a store that is empty, and its messages
// to the inbox, reads the store back, and compares it with the file. If adding fails, or ctx
// ends, a part of the file may be left in the store, which then
// accepts no import. A timer that waited waits, one that fired is Reached and does not fire
// again, and one that was canceled is a tombstone. They are registered, and canceled, now. The
// messages are handled again from now on. They have no place in a log any more, since that
// was one of another broker.
func (x Exported) Import(ctx context.Context, to Target, now time.Time) (Summary, error) {
	switch st, err := to.Stats(ctx, ""); {
	case err != nil:
		return Summary{}, err
	case st.Total() > 0 || st.Outbox > 0 || st.Parked > 0:
		return Summary{}, ErrNotEmpty
	}
	switch waiting, err := to.Waiting(ctx, 0, 1); {
	case err != nil:
		return Summary{}, err
	case len(waiting) > 0:
		return Summary{}, ErrNotEmpty
	}
	tally := newTally(StageImport, x.progress)
	i := &importer{to: to, now: now, lines: newLineWriter(io.Discard, tally)}
	if err := i.all(ctx, x.file); err != nil {
		return Summary{}, fmt.Errorf("%w: a part of the file may be in the database: delete it, and import again", err)
	}
	held, err := exportAll(ctx, to, now, io.Discard, newTally(StageVerify, x.progress))
	if err != nil {
		return Summary{}, fmt.Errorf("the import is in the database, but was not read back: %w", err)
	}
	if want := tally.summary(); held != want {
		return Summary{}, fmt.Errorf("the database does not hold the imported timers, but %s with the checksum %s, want %s with %s: do not use it", held, held.SHA256, want, want.SHA256)
	}
	return held, nil
}

// importRows is how many timers are added with one commit of each kind.
const importRows = 1000

// An importer adds timers to a store.
type importer struct {
	to    Target
	now   time.Time
	lines *lineWriter // counts the timers and messages as an export of the store has them

	schedules []timer.ScheduleTimer
	reached   []timer.DueTimeReached
	cancels   []timer.CancelTimer
	messages  []timer.InboxMessage
}

// all adds the timers of a file.
func (i *importer) all(ctx context.Context, file io.Reader) error {
	_, err := readExport(file, func(e timer.Entry) error {
		if err := i.lines.timer(&e); err != nil {
			return err
		}
		i.add(&e)
		if len(i.schedules)+len(i.cancels) < importRows {
			return nil
		}
		return i.flush(ctx)
	}, func(m timer.InboxMessage) error {
		if err := i.lines.message(&m); err != nil {
			return err
		}
		m.RetryAt = i.now
		if i.messages = append(i.messages, m); len(i.messages) < messagePage {
			return nil
		}
		return i.flush(ctx)
	})
	if err != nil {
		return err
	}
	return i.flush(ctx)
}

// add has a timer wait for the next flush.
func (i *importer) add(e *timer.Entry) {
	if e.State == timer.Canceled {
		i.cancels = append(i.cancels, timer.CancelTimer{Key: e.Key, Version: e.Version})
		return
	}
	i.schedules = append(i.schedules, e.Command())
	if e.State.Marked() {
		i.reached = append(i.reached, e.Event())
	}
}

// flush adds the gathered timers. A timer that has fired is scheduled first, which keeps its
// version, and then is marked as Reached, as by a recovery.
func (i *importer) flush(ctx context.Context) error {
	results, err := i.to.Schedule(ctx, i.now, i.schedules...)
	if err := refusal(results, err, func(n int) timer.Key { return i.schedules[n].Key }); err != nil {
		return err
	}
	if _, err := i.to.Fired(ctx, math.MaxInt64, i.reached...); err != nil { // however much newer the command is
		return err
	}
	results, err = i.to.Cancel(ctx, i.now, i.cancels...)
	if err := refusal(results, err, func(n int) timer.Key { return i.cancels[n].Key }); err != nil {
		return err
	}
	i.schedules, i.reached, i.cancels = i.schedules[:0], i.reached[:0], i.cancels[:0]
	err = i.to.Inbox().PutInbox(ctx, i.messages...)
	i.messages = i.messages[:0]
	return err
}

// refusal returns the error of commands, or of the first that is refused.
func refusal(results []timer.Result, err error, key func(n int) timer.Key) error {
	for n, r := range results {
		if r.Err != nil {
			return fmt.Errorf("timer %s: %w", key(n), r.Err)
		}
	}
	return err
}

// A tally counts timers and hashes their lines.
type tally struct {
	sum      Summary
	hash     hash.Hash
	stage    string
	progress Progress
	n        int // timers that were not reported yet
}

func newTally(stage string, progress Progress) *tally {
	return &tally{hash: sha256.New(), stage: stage, progress: progress}
}

// add adds a timer with its line, which ends with a line feed.
func (t *tally) add(state timer.State, line []byte) {
	_, _ = t.hash.Write(line) // never fails
	t.sum.Timers.Count(state, 1)
	t.count()
}

// addMessage adds a message with its line.
func (t *tally) addMessage(line []byte) {
	_, _ = t.hash.Write(line)
	t.sum.Messages++
}

// count counts a timer for the progress alone.
func (t *tally) count() {
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

// summary returns that of all timers added.
func (t *tally) summary() Summary {
	t.report()
	t.sum.SHA256 = hex.EncodeToString(t.hash.Sum(nil))
	return t.sum
}
