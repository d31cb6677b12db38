package kafka

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// logger logs the client library's log at the debug level. Its warnings are followed by a
// retry, and the driver itself logs when it can't go on.
type logger struct{ log *slog.Logger }

// Level returns the least severe level to log.
func (l logger) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelNone
}

// Log logs a line of the client library.
func (l logger) Log(_ kgo.LogLevel, text string, keyvals ...any) {
	l.log.DebugContext(context.Background(), "Kafka client", append([]any{"event", text}, keyvals...)...)
}

// errorFilter filters the errors of an action that is retried again and again. An error is
// logged unless it equals the one before.
type errorFilter struct{ last string }

// isNew reports whether to log an error. Err is nil if the last attempt
// succeeded. Errors after the end of ctx are not logged.
func (r *errorFilter) isNew(ctx context.Context, err error) bool {
	last := r.last
	r.last = fmt.Sprint(err)
	return err != nil && r.last != last && ctx.Err() == nil
}
