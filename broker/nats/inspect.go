package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
)

// Inspect describes the server, the stream, and the owner of the commands of a role. It
// changes nothing, and makes its own connection: Run need not run. An absent stream is no
// error.
func (b *Broker) Inspect(ctx context.Context, role string) (found broker.Inspection, err error) {
	err = b.connected(ctx, func(b *Broker, s *session) error {
		found.Version, found.Rereads = "NATS "+s.conn.ConnectedServerVersion(), true
		info, err := b.lookUpStream(ctx, s)
		if err != nil {
			return fmt.Errorf("stream %s: %w", b.opt.Stream, err)
		}
		c := info.Config
		found.Now = info.TimeStamp
		full := fullest(b.limits(ctx, s, info))
		found.MaxAge, found.Limit, found.Used, found.Limited = c.MaxAge, full.most, full.used, full.name
		found.Keeps = fmt.Sprintf("stream %s: retention %s, storage %s, discard %s, duplicate window %v, %d replicas",
			c.Name, word(c.Retention), word(c.Storage), word(c.Discard), c.Duplicates, max(c.Replicas, 1))
		if found.Oldest, err = b.oldestCommand(ctx, s); err != nil {
			return err
		}
		switch {
		case !found.Oldest.IsZero():
		case info.State.LastSeq > 0: // the stream has no commands now, but may have had some
			found.Oldest = info.TimeStamp
		default:
			found.Oldest = info.Created
		}
		found.Owner, _, err = b.keptOwner(ctx, s, role)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = nil
	}
	return found, err
}

// word returns the name of a value in the server's configuration.
func word(v json.Marshaler) string {
	text, _ := v.MarshalJSON() // it fails only for a value that no server knows
	return strings.Trim(string(text), `"`)
}
