package kafka

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// logger takes what the client library has to say. It is talkative: what is a
// warning there is mended by a retry here, and a driver that can't go on says so
// itself.
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
	l.log.DebugContext(context.Background(), "Kafka client", append([]any{"says", text}, keyvals...)...)
}
