package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// errFull says that the stream takes no more.
var errFull = errors.New("the stream is full")

// ours is in the metadata of a stream that the service has made, whose limits it may
// change.
const ours = "timer-service"

// checkLimit returns an error while the stream is full: the largest message does not fit.
func checkLimit(info *jetstream.StreamInfo) error {
	limit, used := info.Config.MaxBytes, number(info.State.Bytes)
	if limit > 0 && limit-used < min(1<<20, limit/16) {
		return fmt.Errorf("%w: stream %s has %d of the %d bytes of its max_bytes: raise nats_max_bytes and start again, or have the stream forget sooner (nats_max_age)",
			errFull, info.Config.Name, used, limit)
	}
	return nil
}

// applyLimit sets the size of a stream to what the configuration says, if the service has
// made it, and says if it can't. A limit that what is there would fill is not set, and what
// the disk of an embedded server has left changes no limit.
func (b *Broker) applyLimit(ctx context.Context, s *session, info *jetstream.StreamInfo) {
	want, config := b.maxBytes(), info.Config
	if want == config.MaxBytes || want < b.opt.MaxBytes && config.MaxBytes < b.opt.MaxBytes {
		return
	}
	_, made := config.Metadata[ours]
	if !made || b.opt.Verify || number(info.State.Bytes) > want/4*3 {
		b.log.WarnContext(ctx, "the stream has another size limit than nats_max_bytes says, and keeps it", "stream", config.Name, "max_bytes", config.MaxBytes, "nats_max_bytes", want)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	ctx, stop := b.requesting(ctx, b.api("STREAM."))
	defer stop()
	was := config.MaxBytes
	config.MaxBytes = want
	if _, err := s.js.UpdateStream(ctx, config); err != nil {
		b.log.WarnContext(ctx, "the size limit of the stream can't be set to nats_max_bytes", "stream", config.Name, "max_bytes", was, "nats_max_bytes", want, "error", cause(ctx, err))
		return
	}
	b.log.InfoContext(ctx, "set the size limit of the stream to nats_max_bytes", "stream", config.Name, "max_bytes", want, "was", was)
}
