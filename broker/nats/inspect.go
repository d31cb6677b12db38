package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
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
		found.Foreign, err = b.foreign(ctx, s, info.State.LastSeq)
		if err != nil {
			return err
		}
		var seq uint64
		if found.Owner, seq, err = b.keptOwner(ctx, s, role); found.Owner.Database == "" && seq > 0 {
			found.Foreign = fmt.Sprintf("%s (stream %s, sequence %d)", b.ownerSubject(role), b.ownerStream(), seq)
		}
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = nil
	}
	return found, err
}

// inspected is how many of the last sequences of the stream are inspected.
const inspected = 2000

// foreign returns where the newest message is, among the last ones of the stream, that is no
// event or dead letter of the service. Such a message is mostly an answer of the server: a
// producer can name any subject for it.
func (b *Broker) foreign(ctx context.Context, s *session, last uint64) (where string, err error) {
	for _, kind := range []broker.Kind{broker.Events, broker.DeadLetter} {
		r := streamReader{Broker: b, filter: b.opt.Routing.TopicOf(kind, "*"), direct: true, next: max(last, inspected) - inspected + 1, end: last}
		for more := true; more && r.next <= r.end; {
			batch, err := r.read(ctx, s)
			if err != nil {
				return "", err
			}
			more = len(batch) > 0
			for _, m := range batch {
				if m.Message.Metadata.Get(envelope.HeaderType) == "" {
					where = fmt.Sprintf("%s (stream %s, sequence %d)", m.Message.Metadata.Get(broker.MetaTopic), b.opt.Stream, m.Number)
				}
			}
		}
	}
	return where, nil
}

// word returns the name of a value in the server's configuration.
func word(v json.Marshaler) string {
	text, _ := v.MarshalJSON() // it fails only for a value that no server knows
	return strings.Trim(string(text), `"`)
}
