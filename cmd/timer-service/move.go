package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/fsync"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// releasePause is the time between two polls whether the service has released a timer.
const releasePause = 20 * time.Millisecond

// maxID is the greatest length of a command's id.
const maxID = 128

// A move takes the timers of one tenant from a running service, and writes them for another
// one, see docs/adr/0038-move-a-tenant.md. FILE.partial has the timers as they were before
// any was canceled; after a crash the move continues from it. FILE has the timers that were
// released.
type move struct {
	tenant timer.TenantID
	from   timer.Reader // the database that the service runs on
	path   string       // of FILE

	sum  store.Summary // of FILE
	left int
}

func (m *move) partial() string { return m.path + partial }

// run moves the timers into the file.
func (m *move) run(ctx context.Context, e *env) error {
	if err := m.begin(ctx, e); err != nil {
		return err
	}
	err := m.release(ctx, e)
	if err == nil {
		err = m.write(ctx, e)
	}
	if err != nil {
		return fmt.Errorf("%w; run it again, which goes on with %s", err, m.partial())
	}
	return os.Remove(m.partial())
}

// begin writes all timers to FILE.partial before any is changed, unless an interrupted move
// has done so.
func (m *move) begin(ctx context.Context, e *env) error {
	err := m.each(func(timer.Entry) error { return nil })
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return wrong("export", "%s exists: it is being written, or an export was killed before it took anything; then delete it (%w)", m.partial(), err)
	}
	if err := absent("export", m.path); err != nil {
		return err
	}
	p := newProgress(e, "")
	err = m.create(m.partial(), func(w io.Writer) error {
		_, err := store.Export(ctx, m.from, store.Header{TenantID: m.tenant, ExportedAt: e.now()}, w, p.addRows)
		return err
	})
	p.clear()
	if err != nil {
		_ = os.Remove(m.partial())
	}
	return err
}

// create writes a file, and syncs it to disk.
func (m *move) create(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	return errors.Join(fsync.File(path), fsync.Folder(filepath.Dir(path)))
}

// each calls fn with each timer of FILE.partial.
func (m *move) each(fn func(timer.Entry) error) error {
	f, err := os.Open(m.partial())
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = store.ReadExport(f, m.tenant, fn)
	return err
}

// release makes the service cancel each waiting timer, in the version that was read.
func (m *move) release(ctx context.Context, e *env) error {
	c, err := e.service(ctx)
	if err != nil {
		return err
	}
	s := &sender{client: c, env: e, progress: newProgress(e, "timers"), batch: maxBatch}
	err = s.sendTimers(ctx, m.each, func(t timer.Entry) []byte {
		if t.State != timer.Scheduled {
			return nil
		}
		return envelope.Cancel(timer.CancelTimer{Key: t.Key, Version: after(t.Version, "!")})
	})
	s.progress.clear()
	if err == nil && s.refused > 0 {
		err = fmt.Errorf("the service refused to cancel %d timers", s.refused)
	}
	return err
}

// after returns a version that is newer than v, and older than all versions that differ from
// v by more than their end. The version with which a timer is canceled here ends with "!". It
// is older than the version of the command for the other service, which ends with "~", so
// that the timer may come back.
func after(v timer.Version, end string) timer.Version {
	if len(v.CommandID) < maxID {
		return timer.Version{TimestampMS: v.TimestampMS, CommandID: v.CommandID + end}
	}
	return timer.Version{TimestampMS: v.TimestampMS + 1, CommandID: end + end}
}

// write writes the released and the finished timers. Until it ends the file has no trailer,
// and an import refuses it.
func (m *move) write(ctx context.Context, e *env) error {
	err := m.create(m.path, func(w io.Writer) (err error) {
		header := store.Header{TenantID: m.tenant, ExportedAt: e.now()}
		m.sum, err = store.WriteExport(w, header, nil, func(yield func(*timer.Entry) error) error {
			return m.each(func(t timer.Entry) error {
				if t.State == timer.Scheduled {
					ours, err := m.await(ctx, t)
					if err != nil {
						return err
					}
					if !ours {
						m.left++
						return nil
					}
				}
				return yield(&t)
			})
		})
		return err
	})
	if err != nil {
		_ = os.Remove(m.path) // an import would refuse what is left
	}
	return err
}

// await waits until the service has decided on a timer, and reports whether it was released.
// If not, the timer has fired or got a newer command, and stays.
func (m *move) await(ctx context.Context, t timer.Entry) (ours bool, err error) {
	cancel := after(t.Version, "!")
	for {
		e, err := m.from.Get(ctx, t.Key)
		switch {
		case errors.Is(err, timer.ErrNotFound): // purged, or deleted with its tenant
			return false, nil
		case err != nil:
			return false, err
		case e.Version == cancel:
			return e.State == timer.Canceled, nil
		case e.State.Marked() || cancel.Compare(e.Version) < 0:
			return false, nil
		case !pause.For(ctx, releasePause):
			return false, errors.New("the service has not released all timers")
		}
	}
}

// publishExport publishes the timers of a file that a move has written, as commands. A
// finished timer leaves a tombstone at the service, so that old commands for it have no
// effect if they are delivered again.
func publishExport(ctx context.Context, e *env, name string, file io.ReadSeeker, tenant timer.TenantID) error {
	each := func(fn func(timer.Entry) error) error {
		_, err := file.Seek(0, io.SeekStart)
		if err == nil {
			_, err = store.ReadExport(file, tenant, fn)
		}
		return err
	}
	if err := each(func(timer.Entry) error { return ctx.Err() }); err != nil {
		return fmt.Errorf("%s: %w; nothing was published", name, err)
	}
	return sendFrom(ctx, e, "commands", "import it", func(s *sender) error {
		return s.sendTimers(ctx, each, func(t timer.Entry) []byte {
			if t.State != timer.Scheduled {
				return envelope.Cancel(timer.CancelTimer{Key: t.Key, Version: t.Version})
			}
			return envelope.Schedule(timer.ScheduleTimer{Key: t.Key, Version: after(t.Version, "~"), CorrelationID: t.CorrelationID, DueAt: t.DueAt, ExpiresAt: t.ExpiresAt, Data: t.Data})
		})
	})
}

// sendTimers publishes a command for each timer of an export. It skips timers for which
// command returns nil.
func (s *sender) sendTimers(ctx context.Context, each func(func(timer.Entry) error) error, command func(timer.Entry) []byte) error {
	number := 1 // the line of the header
	err := each(func(t timer.Entry) error {
		number++
		return s.add(ctx, number, command(t))
	})
	if err != nil {
		return err
	}
	return s.flush(ctx)
}
