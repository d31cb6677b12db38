package nats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"
)

const (
	mendPause = time.Second // between tries to mend
	mendRoom  = 1 << 20     // free bytes without which a server does not even start
)

// mend starts the server anew when a file could not be written and there is
// room on the disk. A stream that failed to write once, because the disk was
// full, refuses everything from then on (nats-server v2.15.2).
func (e *Embedded) mend() {
	for {
		select {
		case <-e.stop:
			return
		case <-e.ill:
		}
		for mended := false; !mended; {
			select {
			case <-e.stop:
				return
			case <-time.After(mendPause):
			}
			if free, err := freeBytes(e.dir); err == nil && free < mendRoom {
				continue
			}
			e.log.Warn("the embedded NATS server could not write, starting it anew", "dir", e.dir)
			shutDown(e.current())
			select {
			case <-e.ill: // that was the old one
			default:
			}
			err := e.launch()
			if mended = err == nil; !mended {
				e.log.Error("start the embedded NATS server anew, will retry", "error", err, "retry_in", mendPause)
			}
		}
	}
}

// serverLog writes what the server has to say, and tells when a file could not
// be written.
type serverLog struct {
	log *slog.Logger
	ill chan<- struct{}
}

func (l serverLog) write(level slog.Level, format string, v ...any) {
	l.log.Log(context.Background(), level, "NATS server", "text", fmt.Sprintf(format, v...))
}

// Noticef writes what happens at every start and stop.
func (l serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v...) }

// Warnf writes what may need a look.
func (l serverLog) Warnf(format string, v ...any) { l.write(slog.LevelWarn, format, v...) }

// Fatalf writes why the server can't go on. It does not end the process.
func (l serverLog) Fatalf(format string, v ...any) { l.write(slog.LevelError, format, v...) }

// Errorf writes what went wrong.
func (l serverLog) Errorf(format string, v ...any) {
	l.write(slog.LevelError, format, v...)
	for _, arg := range v {
		err, ok := arg.(error)
		if _, file := errors.AsType[*fs.PathError](err); !ok || !file {
			continue
		}
		select {
		case l.ill <- struct{}{}:
		default:
		}
	}
}

// Debugf writes nothing: it is not asked for.
func (l serverLog) Debugf(string, ...any) {}

// Tracef writes nothing: it is not asked for.
func (l serverLog) Tracef(string, ...any) {}
