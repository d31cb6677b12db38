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

// releasePause is between two looks at whether the service has released a timer.
const releasePause = 20 * time.Millisecond

// maxID is how long the id of a command may be.
const maxID = 128

// A move takes the timers of one tenant from a service that runs, and writes them for
// another one, see docs/adr/0038-move-a-tenant.md. FILE.partial has the timers as they
// were before anything was canceled; after a crash the move goes on with it. FILE has
// the timers that were released.
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

// begin writes what there is, before anything is changed, unless a move before has.
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

// create writes a file, and has it on disk.
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

// each calls fn with each timer that there was.
func (m *move) each(fn func(timer.Entry) error) error {
	f, err := os.Open(m.partial())
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = store.ReadExport(f, m.tenant, fn)
	return err
}

// release has the service cancel each timer that waited, in the version that was read.
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

// after returns a version that is newer than v, and older than all that differ from it in
// more than what they end with. That by which a timer is canceled here ends with "!", and
// is older than that of the command for the other service, which ends with "~", so that
// the timer may come back.
func after(v timer.Version, end string) timer.Version {
	if len(v.CommandID) < maxID {
		return timer.Version{TimestampMS: v.TimestampMS, CommandID: v.CommandID + end}
	}
	return timer.Version{TimestampMS: v.TimestampMS + 1, CommandID: end + end}
}

// write writes the timers that were released, and the timers that are over. Until the end
// the file has no trailer, and nothing of it is imported.
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
		_ = os.Remove(m.path) // of what is left nothing is imported
	}
	return err
}

// await waits until the service has decided on a timer, and reports whether it was
// released. Else it has fired, or a newer command came, and it stays.
func (m *move) await(ctx context.Context, t timer.Entry) (ours bool, err error) {
	cancel := after(t.Version, "!")
	for {
		e, err := m.from.Get(ctx, t.Key)
		switch {
		case errors.Is(err, timer.ErrNotFound): // purged, or forgotten
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

// publishExport publishes the timers of a file that a move has written, as commands. One
// that is over leaves a tombstone at the service, so that its commands change nothing if
// they come again.
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

// sendTimers publishes a command for each timer of an export, unless that is nil.
func (s *sender) sendTimers(ctx context.Context, each func(func(timer.Entry) error) error, command func(timer.Entry) []byte) error {
	number := 1 // of the line of the header
	err := each(func(t timer.Entry) error {
		number++
		return s.add(ctx, number, command(t))
	})
	if err != nil {
		return err
	}
	return s.flush(ctx)
}
