package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/service"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// releasePause is the time between two polls whether the service has released a timer.
const releasePause = 20 * time.Millisecond

// maxID is the greatest length of a command's id.
const maxID = 128

// A move takes the timers of one tenant from a running service, and writes them for another
// one, see docs/adr/0038-move-a-tenant.md. FILE.before has the timers as they were before
// any was canceled; after a crash the move continues from it. FILE has the timers that were
// released.
type move struct {
	tenant timer.TenantID
	from   store.Source // the database that the service runs on
	path   string       // of FILE

	sum  store.Summary // of FILE
	left int
}

func (m *move) before() string { return m.path + ".before" }

// run moves the timers into the file.
func (m *move) run(ctx context.Context, e *env) error {
	_, err := os.Stat(m.before())
	if errors.Is(err, fs.ErrNotExist) {
		err = m.begin(ctx, e)
	} else if err == nil {
		_ = os.Remove(m.path) // of a run that ended before it removed FILE.before
	}
	if err != nil {
		return err
	}
	if err = m.release(ctx, e); err == nil {
		err = m.write(ctx, e)
	}
	if err != nil {
		return fmt.Errorf("%w; run it again, which goes on with %s", err, m.before())
	}
	return os.Remove(m.before())
}

// begin writes all timers to FILE.before, before any is changed.
func (m *move) begin(ctx context.Context, e *env) error {
	if _, err := os.Lstat(m.path); err == nil {
		return fmt.Errorf("%s: %w: name a file that does not", m.path, fs.ErrExist)
	}
	_, err := service.WriteWhole(m.before(), func(f *os.File) error {
		_, err := store.Export(ctx, m.from, store.Header{TenantID: m.tenant, ExportedAt: e.now()}, f, stages(e))
		return err
	})
	return err
}

// each calls fn with each timer of FILE.before.
func (m *move) each(fn func(timer.Entry) error) error {
	f, err := os.Open(m.before())
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

// write writes the released and the finished timers.
func (m *move) write(ctx context.Context, e *env) error {
	_, err := service.WriteWhole(m.path, func(f *os.File) (err error) {
		m.sum, err = store.WriteExport(f, store.Header{TenantID: m.tenant, ExportedAt: e.now()}, nil, func(yield func(*timer.Entry) error) error {
			return m.each(func(t timer.Entry) error {
				if t.State == timer.Scheduled {
					switch ours, err := m.await(ctx, t); {
					case err != nil:
						return err
					case !ours:
						m.left++
						return nil
					}
				}
				return yield(&t)
			})
		})
		return err
	})
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
