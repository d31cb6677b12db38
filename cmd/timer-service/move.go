package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// releasePause is between two looks at whether the service has released a timer.
const releasePause = 20 * time.Millisecond

// maxID is how long the id of a command may be.
const maxID = 128

// A move takes the timers of one tenant from a service that runs, and writes them as
// commands for another one, see docs/adr/0038-move-a-tenant.md.
type move struct {
	tenant timer.TenantID
	from   reader // the database that the service runs on
	path   string // of the file

	written, fired int
}

// taking is where all timers are that are being taken, until each is released. After a
// crash the move goes on with it.
func (m *move) taking() string { return m.path + ".taking" }

// run moves the timers into the file.
func (m *move) run(ctx context.Context, e *env) error {
	final, err := newPartialFile("export", m.path)
	if err != nil {
		return err
	}
	defer final.discard()
	if _, err := os.Lstat(m.taking()); errors.Is(err, fs.ErrNotExist) {
		if err := m.note(ctx); err != nil {
			return err
		}
	}
	if err := m.release(ctx, e); err != nil {
		return fmt.Errorf("%w; run it again, which goes on with %s", err, m.taking())
	}
	if err := m.write(ctx, final); err != nil {
		return fmt.Errorf("%w; run it again, which goes on with %s", err, m.taking())
	}
	return os.Remove(m.taking())
}

// note writes what there is, page by page, before anything is changed.
func (m *move) note(ctx context.Context) error {
	file, err := newPartialFile("export", m.taking())
	if err != nil {
		return err
	}
	defer file.discard()
	err = writeLines(file.partial(), func(w io.Writer) error {
		filter := timer.Filter{Limit: timer.MaxPage}
		for {
			page, err := m.from.List(ctx, m.tenant, filter)
			if err != nil {
				return err
			}
			for _, entry := range page.Entries {
				if _, err := w.Write(append(commandOf(entry), '\n')); err != nil {
					return err
				}
			}
			if page.Next == "" {
				return nil
			}
			filter.After = page.Next
		}
	})
	if err == nil {
		_, err = file.finish()
	}
	return err
}

// commandOf returns the command that makes a timer at the other service. One that is over
// leaves a tombstone there, so that its commands change nothing if they come again.
func commandOf(e timer.Entry) []byte {
	if e.State != timer.Scheduled {
		return envelope.Cancel(timer.CancelTimer{Key: e.Key, Version: e.Version, CorrelationID: e.CorrelationID})
	}
	return envelope.Schedule(timer.ScheduleTimer{Key: e.Key, Version: after(e.Version, "~"), CorrelationID: e.CorrelationID, DueAt: e.DueAt, Data: e.Data})
}

// released returns the version by which a timer is canceled here. It is older than that
// of the command for the other service, so that the timer may come back.
func released(v timer.Version) timer.Version {
	if id := v.CommandID; len(id) > 1 {
		return timer.Version{TimestampMS: v.TimestampMS, CommandID: id[:len(id)-1] + "!"}
	}
	return timer.Version{TimestampMS: v.TimestampMS, CommandID: "!"}
}

// after returns a version that is newer than v, and older than all that differ from it in
// more than what they end with.
func after(v timer.Version, end string) timer.Version {
	if len(v.CommandID) < maxID {
		return timer.Version{TimestampMS: v.TimestampMS, CommandID: v.CommandID + end}
	}
	return timer.Version{TimestampMS: v.TimestampMS + 1, CommandID: end + end}
}

// release has the service cancel each timer, and waits until it has decided for each
// whether it was canceled or had fired before.
func (m *move) release(ctx context.Context, e *env) error {
	c, err := connect(ctx, e, "export")
	if err != nil {
		return err
	}
	defer c.close()
	s := &sender{client: c, stderr: e.stderr, progress: newProgress(e, "timers"), fresh: true, batch: maxBatch, ids: newIDs(maxIDs)}
	in, out := io.Pipe()
	go func() {
		out.CloseWithError(m.each(func(_ []byte, schedule *timer.ScheduleTimer) error {
			if schedule == nil {
				return nil
			}
			_, err := out.Write(append(envelope.Cancel(timer.CancelTimer{Key: schedule.Key, Version: released(schedule.Version)}), '\n'))
			return err
		}))
	}()
	err = s.sendAll(ctx, in)
	in.CloseWithError(err)
	s.progress.clear()
	if err == nil && s.refused > 0 {
		err = fmt.Errorf("the broker refused to cancel %d timers", s.refused)
	}
	return err
}

// write writes the timers that were released, and those that are over, and a trailer.
func (m *move) write(ctx context.Context, file *partialFile) error {
	err := writeLines(file.partial(), func(w io.Writer) error {
		err := m.each(func(line []byte, schedule *timer.ScheduleTimer) error {
			if schedule != nil {
				ours, err := m.await(ctx, schedule)
				if err != nil {
					return err
				}
				if !ours {
					m.fired++
					return nil
				}
			}
			m.written++
			_, err := w.Write(append(line, '\n'))
			return err
		})
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(movedTrailer{kindTrailer, m.written})
	})
	if err == nil {
		_, err = file.finish()
	}
	return err
}

// await waits until the service has decided on a timer, and reports whether it was
// released. Else it has fired, or a newer command came, and it stays.
func (m *move) await(ctx context.Context, c *timer.ScheduleTimer) (ours bool, err error) {
	cancel := released(c.Version)
	for {
		e, err := m.from.Get(ctx, c.Key)
		switch {
		case errors.Is(err, timer.ErrNotFound): // purged, or forgotten
			return false, nil
		case err != nil:
			return false, err
		case e.Version == cancel:
			return e.State == timer.Canceled, nil
		case e.State == timer.Reached || cancel.Compare(e.Version) < 0:
			return false, nil
		case !pause.For(ctx, releasePause):
			return false, errors.New("the service has not released all timers")
		}
	}
}

// each calls fn with each line that is being taken, and with its command if it is one
// that schedules.
func (m *move) each(fn func(line []byte, schedule *timer.ScheduleTimer) error) error {
	f, err := os.Open(m.taking())
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 2*envelope.MaxBytes)
	for lines.Scan() {
		decoded, err := envelope.Decode(lines.Bytes())
		if err != nil {
			return fmt.Errorf("%s: %w", m.taking(), err)
		}
		var schedule *timer.ScheduleTimer
		if c, is := decoded.Payload.(timer.ScheduleTimer); is {
			schedule = &c
		}
		if err := fn(lines.Bytes(), schedule); err != nil {
			return err
		}
	}
	return lines.Err()
}

// writeLines writes a file that exists, with a buffer.
func writeLines(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(write(w), w.Flush(), f.Close())
}
