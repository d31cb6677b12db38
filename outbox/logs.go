package outbox

import (
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/event-service-agent/timer-service/internal/digest"
)

// The logs of a forwarder have a line a minute for each handler, destination and tenant whose
// events fail, so that none hides another one.
type logs struct {
	unhandled   *digest.Digest
	unpublished *digest.Digest
	parked      *digest.Digest
	stacks      digest.OnceSet[[32]uintptr] // of panics
}

func newLogs(log *slog.Logger) logs {
	return logs{
		unhandled:   digest.New(func(attrs ...any) { log.Warn("events could not be handled, will retry each", attrs...) }),
		unpublished: digest.New(func(attrs ...any) { log.Warn("events can't be published, will retry each", attrs...) }),
		parked:      digest.New(func(attrs ...any) { log.Error("events were parked, see the table timer_outbox_parked", attrs...) }),
	}
}

// failed notes that a row failed in its handler, or at a destination if h is nil.
func (l *logs) failed(row Row, h *Handler, destination, reason string) {
	if h != nil {
		l.unhandled.Note(1, []any{"prefix", h.Prefix}, about(row.Message, "error", reason)...)
		return
	}
	l.unpublished.Note(1, []any{"destination", destination}, about(row.Message, "error", reason)...)
}

func (l *logs) flush() {
	for _, d := range []*digest.Digest{l.unhandled, l.unpublished, l.parked} {
		d.Flush()
	}
}

// newStack returns the stack of a panic that was just recovered, or an empty text if it was
// returned before.
func (l *logs) newStack() string {
	var calls [32]uintptr
	runtime.Callers(0, calls[:])
	if !l.stacks.Add(calls) {
		return ""
	}
	return string(debug.Stack())
}
