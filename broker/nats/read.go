package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
)

const (
	readAtOnce = 256     // most messages that are asked for at once; one may have a megabyte
	readBytes  = 4 << 20 // about how many bytes of messages are asked for at once
	readTries  = 10      // attempts in a row that fail, while connected
)

var (
	// errBehind says that the stream lacks messages that it had, since the server that
	// answers has not caught up with the one that answered before.
	errBehind = errors.New("the stream is behind")
	// errRemade says that the stream was made again, so that the sequences of before are
	// invalid.
	errRemade = errors.New("it was deleted and made again")
)

// A reading reads the messages of the stream that match a filter, oldest first. The server
// keeps no position of a reading: each request names a sequence, and the answer is the first
// matching message from there on. Many requests are sent at once, for neighboring sequences,
// so that their answers have all messages of a range.
type reading struct {
	*Broker
	filter string // subject
	next   uint64 // first sequence that was not read
	end    uint64 // last sequence to read
	width  int    // requests to send at once; 0 before the first
}

// read returns the next messages, or none if there are no more.
func (r *reading) read(ctx context.Context, s *session) ([]stored, error) {
	found := make([]stored, min(max(r.width, 1), readAtOnce))
	var requests errgroup.Group
	for i := range found {
		requests.Go(func() (err error) {
			found[i], _, err = r.get(ctx, s, r.opt.Stream, getRequest{Sequence: r.next + uint64(i), Filter: r.filter})
			return err
		})
	}
	if err := requests.Wait(); err != nil {
		return nil, err
	}
	// Requests for sequences between two matching messages all find the second one.
	slices.SortFunc(found, func(a, b stored) int { return cmp.Compare(a.Sequence, b.Sequence) })
	found = slices.CompactFunc(found, func(a, b stored) bool { return a.Sequence == b.Sequence })
	found = slices.DeleteFunc(found, func(m stored) bool { return m.Sequence == 0 || m.Sequence > r.end })
	bytes := 1
	for _, m := range found {
		bytes += len(m.Header) + len(m.Data)
		r.next = m.Sequence + 1
	}
	r.width = min(2*len(found), readBytes*len(found)/bytes)
	return found, nil
}

// Read reads the messages of a kind that the stream holds, see [broker.History]. It goes
// on after the connection was lost.
func (b *Broker) Read(ctx context.Context, kind broker.Kind, after, upTo map[string]int64, visit func([]broker.Stored) error) error {
	r := reading{Broker: b, filter: b.opt.Routing.TopicOf(kind, "*")}
	log := ""
	err := b.withSession(ctx, func(ctx context.Context, s *session) error {
		info, err := b.lookUpStream(ctx, s)
		if err != nil {
			return err
		}
		log, r.end = logOf(info), info.State.LastSeq
		r.next = uint64(after[log]) + 1
		if upTo != nil {
			r.end = min(r.end, uint64(upTo[log]))
		}
		return nil
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	for err == nil && r.next <= r.end {
		var found []stored
		if found, err = r.readFrom(ctx, log); err != nil || len(found) == 0 {
			break
		}
		batch := make([]broker.Stored, len(found))
		for i, m := range found {
			batch[i] = broker.Stored{Message: m.message(), Log: log, Number: number(m.Sequence), At: m.Time.UTC()}
		}
		if err := visit(batch); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("read stream %s: %w", b.opt.Stream, err)
	}
	return nil
}

// readFrom reads the next messages of a log. It tries again if that fails, and waits for
// the connection if there is none.
func (r *reading) readFrom(ctx context.Context, log string) (found []stored, err error) {
	for tries := 1; ; tries++ {
		if _, err = r.keeper.Await(ctx); err == nil {
			err = r.withSession(ctx, func(ctx context.Context, s *session) error {
				before := r.next
				if found, err = r.read(ctx, s); err == nil {
					err = r.verifyLog(ctx, s, log)
				}
				if err != nil {
					r.next = before
				}
				return err
			})
		}
		if err == nil {
			return found, nil
		}
		if ctx.Err() != nil || tries == readTries || final(err) || !pause.For(ctx, retry.Verify.After(tries)) {
			return nil, errors.Join(ctx.Err(), err)
		}
		r.log.WarnContext(ctx, "reading the stream was interrupted, will go on", "filter", r.filter, "sequence", r.next, "error", err)
	}
}

// verifyLog returns an error if the messages just read may be of another log, or if the
// server that has returned them lacks some.
func (r *reading) verifyLog(ctx context.Context, s *session, log string) error {
	info, err := r.lookUpStream(ctx, s)
	switch {
	case err != nil:
		return err
	case logOf(info) != log:
		return fmt.Errorf("%w: it is %s, and was %s", errRemade, logOf(info), log)
	case info.State.LastSeq < r.end:
		return fmt.Errorf("%w: it ends at %d, and ended at %d", errBehind, info.State.LastSeq, r.end)
	}
	return nil
}

// final reports whether no retry can help after an error, since the server, or Run, has
// said so. All other errors may come from a connection that was lost a moment ago.
func final(err error) bool {
	api, refused := errors.AsType[*jetstream.APIError](err)
	return refused && api.Code != http.StatusServiceUnavailable || errors.Is(err, natsgo.ErrPermissionViolation) || errors.Is(err, errRemade) || errors.Is(err, connection.ErrClosed)
}
