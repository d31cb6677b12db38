package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

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

// errBehind says that the stream lacks messages that it had, since the server that answers
// has not caught up with the one that answered before.
var errBehind = errors.New("the stream is behind")

// errDeleted says that there is no stream any more. If it is made again, verify says so.
var errDeleted = errors.New("the stream was deleted")

// A streamReader reads the messages of the stream that match a filter, oldest first. The server
// keeps no position of it: each request names a sequence.
type streamReader struct {
	*Broker
	filter string // subject
	direct bool   // by direct gets, as far as they return something
	first  uint64 // from where it begins, unless run says a later sequence; 0: from the beginning
	next   uint64 // first sequence that was not read
	end    uint64 // last sequence to read
	log    string // name of the log
	width  int    // requests to send at once; 0 before the first
}

// read returns the next messages, or none if there are no more.
func (r *streamReader) read(ctx context.Context, s *session) (batch []broker.Stored, err error) {
	if r.direct {
		if batch, err = r.getDirect(ctx, s); errors.Is(err, errIndirect) {
			r.Broker.log.DebugContext(ctx, "the stream is read message by message", "error", err)
			batch, err = nil, nil
		}
		if r.direct = err != nil || len(batch) > 0; r.direct || r.next > r.end {
			return batch, err
		}
	}
	return r.getEach(ctx, s)
}

// getEach returns the next messages, or none if there are no more. The leader of the stream
// answers with the first matching message from a sequence on. Many requests are sent at once,
// for neighboring sequences, so that their answers have all messages of a range.
func (r *streamReader) getEach(ctx context.Context, s *session) (batch []broker.Stored, err error) {
	found := make([]storedMessage, min(max(r.width, 1), readAtOnce))
	var requests errgroup.Group
	for i := range found {
		requests.Go(func() (err error) {
			found[i], err = r.get(ctx, s, r.opt.Stream, getRequest{Sequence: r.next + uint64(i), Filter: r.filter})
			return err
		})
	}
	if err := requests.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b storedMessage) int { return cmp.Compare(a.Sequence, b.Sequence) })
	bytes := 1
	for _, m := range found {
		// Requests for sequences between two matching messages all find the second one.
		if m.Sequence < r.next || m.Sequence > r.end {
			continue
		}
		header, _ := natsgo.DecodeHeadersMsg(m.Header) // broken headers must not hide a message
		batch = append(batch, r.stored(m, header))
		bytes += len(m.Header) + len(m.Data)
		r.next = m.Sequence + 1
	}
	r.width = min(2*len(batch), readBytes*len(batch)/bytes)
	return batch, nil
}

// stored returns a message as it was published.
func (r *streamReader) stored(m storedMessage, header natsgo.Header) broker.Stored {
	msg := unmarshal(m.Subject, header, m.Data)
	msg.Metadata[broker.MetaPosition] = strconv.FormatUint(m.Sequence, 10)
	return broker.Stored{Message: msg, Log: r.log, Number: number(m.Sequence), At: m.Time.UTC()}
}

// Read reads the messages of a kind that the stream holds, see [broker.History].
func (b *Broker) Read(ctx context.Context, kind broker.Kind, after, upTo map[string]int64, visit func([]broker.Stored) error) error {
	r := streamReader{Broker: b, filter: b.opt.Routing.TopicOf(kind, "*"), direct: true}
	err := r.run(ctx, after, upTo, visit)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}

// run reads messages, as [broker.History] says. It goes on after the connection was lost.
func (r *streamReader) run(ctx context.Context, after, upTo map[string]int64, visit func([]broker.Stored) error) error {
	err := r.withSession(ctx, func(ctx context.Context, s *session) error {
		info, err := r.lookUpStream(ctx, s)
		r.log, r.end = r.logOf(info.Created), info.State.LastSeq
		r.direct = r.direct && info.Config.AllowDirect
		r.next = max(r.first, uint64(after[r.log])+1)
		if upTo != nil {
			r.end = min(r.end, uint64(upTo[r.log]))
		}
		return err
	})
	if err == nil {
		var visited error
		if visited, err = r.visitEach(ctx, visit); visited != nil {
			return visited
		}
	}
	if err != nil {
		return fmt.Errorf("read stream %s: %w", r.opt.Stream, err)
	}
	return nil
}

// visitEach calls visit with each batch, while it reads the next one. It returns the first error
// of visit, and that of the reading.
func (r *streamReader) visitEach(ctx context.Context, visit func([]broker.Stored) error) (visited, failed error) {
	ctx, cancel := context.WithCancel(ctx)
	batches := make(chan []broker.Stored)
	var g errgroup.Group
	g.Go(func() error {
		defer close(batches)
		for r.next <= r.end {
			batch, err := r.batch(ctx)
			if len(batch) == 0 {
				return err
			}
			select {
			case batches <- batch:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for batch := range batches {
		if visited = visit(batch); visited != nil {
			break
		}
	}
	cancel()
	return visited, g.Wait()
}

// batch reads the next messages. It tries again if that fails, and waits for the connection
// if there is none.
func (r *streamReader) batch(ctx context.Context) (batch []broker.Stored, err error) {
	for tries := 1; ; tries++ {
		if _, err = r.keeper.Await(ctx); err == nil {
			err = r.withSession(ctx, func(ctx context.Context, s *session) error {
				before := r.next
				batch, err = r.read(ctx, s)
				if err == nil {
					err = r.verify(ctx, s)
				}
				if err != nil {
					r.next, r.width = before, r.width/2 // over a slow link fewer come in time
				}
				return err
			})
		}
		if err == nil {
			return batch, nil
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) { // the reading has begun
			err = errDeleted
		}
		if ctx.Err() != nil || tries == readTries || final(err) || !pause.For(ctx, retry.Verify.After(tries)) {
			return nil, errors.Join(ctx.Err(), err)
		}
		r.Broker.log.WarnContext(ctx, "reading the stream was interrupted, will go on", "topic", r.filter, "sequence", r.next, "error", err)
	}
}

// verify returns an error if the messages just read may be of another stream, or if the
// server that has returned them lacks some.
func (r *streamReader) verify(ctx context.Context, s *session) error {
	info, err := r.lookUpStream(ctx, s)
	if err == nil && info.State.LastSeq < r.end {
		err = fmt.Errorf("%w: it ends at %d, and ended at %d", errBehind, info.State.LastSeq, r.end)
	}
	return err
}

// final reports whether no retry can help after an error, since the server, or Run, has
// said so. All other errors may come from a connection that was lost a moment ago.
func final(err error) bool {
	api, refused := errors.AsType[*jetstream.APIError](err)
	return refused && api.Code != http.StatusServiceUnavailable || errors.Is(err, natsgo.ErrPermissionViolation) || errors.Is(err, errRemade) || errors.Is(err, connection.ErrClosed)
}
