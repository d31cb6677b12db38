package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/event-service-agent/timer-service/internal/pause"
)

const (
	restartDelay = time.Second // before a restart, and between tries
	minFree      = 1 << 20     // free bytes that a server needs to start
)

// restartAfterFailures restarts the server when a file could not be written and
// the disk has free space. A stream that failed to write once, because the disk
// was full, refuses everything from then on (nats-server v2.15.2).
func (s *Server) restartAfterFailures(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.failed:
		}
		for pause.For(ctx, restartDelay) && !s.restart() {
			continue
		}
	}
}

// restart restarts the server, unless the disk is full. It reports whether the server answers.
func (s *Server) restart() bool {
	if free, err := freeBytes(s.dir); err == nil && free < minFree {
		return false
	}
	s.log.Warn("the embedded NATS server could not write, restarting it", "dir", s.dir)
	shutDown(s.current.Load())
	select {
	case <-s.failed: // of the old server
	default:
	}
	err := s.launch()
	if err != nil {
		s.log.Error("restart the embedded NATS server, will retry", "error", err, "retry_in", restartDelay)
	}
	return err == nil
}

// serverLog writes the log lines of the server, and signals that a file could not be
// written.
type serverLog struct {
	log    *slog.Logger
	failed chan<- struct{}
	fatal  chan<- error // gets the reason if the server can't start; it has space for one
}

func (l serverLog) write(level slog.Level, format string, v ...any) {
	l.log.Log(context.Background(), level, "NATS server", "text", fmt.Sprintf(format, v...))
}

// Noticef writes lines about every start and stop.
func (l serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v...) }

// Warnf writes lines that an operator may have to act on.
func (l serverLog) Warnf(format string, v ...any) { l.write(slog.LevelWarn, format, v...) }

// Fatalf writes the reason why the server can't go on. It does not end the process.
func (l serverLog) Fatalf(format string, v ...any) {
	l.write(slog.LevelError, format, v...)
	select {
	case l.fatal <- fmt.Errorf("start the embedded NATS server: "+format, v...):
	default:
	}
}

// Errorf writes errors.
func (l serverLog) Errorf(format string, v ...any) {
	l.write(slog.LevelError, format, v...)
	for _, arg := range v {
		err, ok := arg.(error)
		if _, file := errors.AsType[*fs.PathError](err); !ok || !file {
			continue
		}
		select {
		case l.failed <- struct{}{}:
		default:
		}
	}
}

// Debugf writes nothing: it is switched off.
func (l serverLog) Debugf(string, ...any) {}

// Tracef writes nothing: it is switched off.
func (l serverLog) Tracef(string, ...any) {}
