package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// errFull says that the stream takes no more.
var errFull = errors.New("the stream is full")

// ours is a metadata key of streams that the service has created, whose limits it may
// change.
const ours = "timer-service"

// checkLimit returns an error while the stream is full, that is, has no room for the
// largest message. Such a stream is read all the same, since consumed messages can be
// removed.
func checkLimit(info *jetstream.StreamInfo) *error {
	limit, used := info.Config.MaxBytes, number(info.State.Bytes)
	if limit > 0 && limit-used < min(1<<20, limit/16) {
		err := fmt.Errorf("%w: stream %s has %d of the %d bytes of its max_bytes: raise nats_max_bytes and start again, or have the stream forget sooner (nats_max_age)",
			errFull, info.Config.Name, used, limit)
		return &err
	}
	return nil
}

// applyLimits sets the size and age limits of the stream to the configured ones if the
// service has created it, and logs it if it can't. It sets no limit that would drop
// messages, or that the stored messages would fill. The space that the disk of an
// embedded server has left changes no limit.
func (b *Broker) applyLimits(ctx context.Context, s *session, info *jetstream.StreamInfo) {
	is, want := info.Config, info.Config
	if bytes := b.maxBytes(); bytes >= b.opt.MaxBytes || is.MaxBytes >= b.opt.MaxBytes {
		want.MaxBytes = bytes
	}
	want.MaxAge = b.opt.MaxAge
	about := []any{"stream", is.Name, "max_bytes", is.MaxBytes, "nats_max_bytes", want.MaxBytes, "max_age", is.MaxAge, "nats_max_age", want.MaxAge}
	_, made := is.Metadata[ours]
	may, differs := made && !b.opt.Verify, want.MaxBytes != is.MaxBytes || want.MaxAge != is.MaxAge
	if !may || aboveThreshold(info, want.MaxBytes) {
		want.MaxBytes = is.MaxBytes
	}
	if !may || is.MaxAge == 0 || want.MaxAge < is.MaxAge {
		want.MaxAge = is.MaxAge
	}
	if want.MaxBytes == is.MaxBytes && want.MaxAge == is.MaxAge {
		if differs {
			b.log.WarnContext(ctx, "the stream has other limits than nats_max_bytes and nats_max_age say, and keeps them", about...)
		}
		return
	}
	if err := b.ask(ctx, s, "STREAM.UPDATE."+is.Name, want, new(struct{})); err != nil {
		b.log.WarnContext(ctx, "the limits of the stream can't be set to nats_max_bytes and nats_max_age", append(about, "error", err)...)
		return
	}
	b.log.InfoContext(ctx, "set the limits of the stream to nats_max_bytes and nats_max_age", about...)
}
