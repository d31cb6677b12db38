package kafka

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// logger logs what the client library logs, at the debug level: what is a warning
// there is followed by a retry, and a driver that can't go on logs that itself.
type logger struct{ log *slog.Logger }

// Level returns the least severe level that is wanted.
func (l logger) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelNone
}

// Log logs.
func (l logger) Log(_ kgo.LogLevel, text string, keyvals ...any) {
	l.log.DebugContext(context.Background(), "Kafka client", append([]any{"event", text}, keyvals...)...)
}

// A repeated error is that of something that is tried again and again. It is logged unless
// it is like the one before.
type repeated struct{ last string }

// isNew reports whether an error, nil if the last try succeeded, is to be logged. One that
// ctx has caused is not.
func (r *repeated) isNew(ctx context.Context, err error) bool {
	text, last := "", r.last
	if err != nil {
		text = err.Error()
	}
	r.last = text
	return text != "" && text != last && ctx.Err() == nil
}
