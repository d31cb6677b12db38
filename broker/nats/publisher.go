package nats

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/errgroup"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/failpoint"
)

const (
	publishTimeout = 20 * time.Second // longest wait for the acks of a call, if its context allows more
	maxUnacked     = 8192             // messages sent and not acked, of all calls together; a stream queues 10,000
)

// once disables retries of the client library: a message that is sent again later arrives
// behind others of its key.
var once = jetstream.WithRetryAttempts(0)

// publisher publishes to the stream. See [broker.Publisher] for its contract.
type publisher struct{ *Broker }

// An outgoingMessage is a message of a Publish call that can be sent.
type outgoingMessage struct {
	*natsgo.Msg
	result *error // its result in the call; nil until it fails
}

// Publish publishes a thousand messages at a time: in one atomic batch if the stream takes
// batches, and otherwise pipelined, each with an ack of its own.
func (p publisher) Publish(ctx context.Context, messages ...broker.Message) []error {
	s, err := p.current()
	if err != nil {
		return broker.All(len(messages), err)
	}
	results := make([]error, len(messages))
	out := make([]outgoingMessage, 0, len(messages))
	for i, m := range messages {
		msg, err := marshal(m.Topic, m.Message)
		if results[i] = cmp.Or(err, p.roomFor(m)); results[i] == nil {
			out = append(out, outgoingMessage{msg, &results[i]})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	var duplicates []duplicate
	for part := range slices.Chunk(out, maxBatch) {
		if !p.publishBatch(ctx, s, part) {
			duplicates = append(duplicates, p.send(ctx, s, part)...)
		}
	}
	p.verifyDuplicates(ctx, s, duplicates)
	p.notice(results)
	for i, m := range messages {
		if errors.Is(results[i], errFull) && isLetter(m.Metadata) {
			results[i] = fmt.Errorf("%w: %w", broker.ErrDeadLettersFull, results[i])
		}
	}
	return results
}

// refusedFor is how long a refusal stands without another publish. Events that wait are
// published again sooner.
const refusedFor = time.Minute

// notice notes whether the server refuses messages since something is full, which the limits
// that can be seen need not tell, and has the stream looked up soon if it refuses any.
func (p publisher) notice(results []error) {
	for _, err := range results {
		switch {
		case err == nil:
			p.refusing.Store(nil)
		case errors.Is(err, errFull):
			why := new(fmt.Errorf("publishes are refused: %w", err))
			p.refusing.Store(why)
			time.AfterFunc(refusedFor, func() { p.refusing.CompareAndSwap(why, nil) })
			p.keeper.Recheck()
			return
		case errors.Is(err, jetstream.ErrNoStreamResponse):
			p.keeper.Recheck()
			return
		}
	}
}

// send publishes messages without waiting between them, waits for all acks, and sets the
// result of each that failed. It returns the messages that the stream had already.
func (p publisher) send(ctx context.Context, s *session, messages []outgoingMessage) (duplicates []duplicate) {
	connected, end := s.whileConnected(ctx)
	defer end()
	unacked := int64(min(len(messages), maxUnacked))
	if err := s.unacked.Acquire(connected, unacked); err != nil {
		for _, m := range messages {
			*m.result = s.result(ctx, err)
		}
		return nil
	}
	defer s.unacked.Release(unacked)
	acks := make([]jetstream.PubAckFuture, len(messages))
	waiting := make(map[string]context.Context) // by subject; it ends when the subject is denied
	for i, m := range messages {
		if waiting[m.Subject] == nil {
			permitted, stop := p.requesting(connected, m.Subject)
			defer stop()
			waiting[m.Subject] = permitted
		}
		err := connected.Err()
		if err == nil {
			acks[i], err = s.js.PublishMsgAsync(m.Msg, once)
		}
		if err != nil {
			*m.result = s.result(ctx, err)
		}
		failpoint.Here("publishing")
	}
	for i, m := range messages {
		if *m.result != nil {
			continue
		}
		ack, err := await(waiting[m.Subject], acks[i])
		if err != nil {
			*m.result = s.result(ctx, err)
			continue
		}
		if ack.Duplicate {
			duplicates = append(duplicates, duplicate{m, ack.Sequence})
		}
	}
	return duplicates
}

// await waits for an ack, or for the end of ctx, and returns the cause of that end.
func await(ctx context.Context, ack jetstream.PubAckFuture) (*jetstream.PubAck, error) {
	select {
	case a := <-ack.Ok():
		return a, nil
	case err := <-ack.Err():
		return nil, err
	case <-ctx.Done():
	}
	select {
	case a := <-ack.Ok(): // it came before ctx ended
		return a, nil
	default:
		return nil, context.Cause(ctx)
	}
}

// result returns the result of a message that failed. If the connection was lost, or ctx has
// ended, it is not known whether the message was stored.
func (s *session) result(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("no ack of the server: %w", ctx.Err())
	case s.lost() || s.conn.IsClosed():
		return connection.ErrNotConnected
	}
	return result(err)
}

// Codes of JetStream errors for which the client library has no names.
const (
	codeAccount         = 10002
	codeResources       = 10023
	codeMessageTooLarge = 10054
	codeStoreFailed     = 10077
	codeHeadersTooLarge = 10097
)

// result returns the result of a message that failed, as [broker.Publisher] asks for:
// refused for good, unavailable since the broker is away or full, or err itself.
func result(err error) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch {
		case api.ErrorCode == codeMessageTooLarge, api.ErrorCode == codeHeadersTooLarge:
			return refused(err)
		case api.ErrorCode == codeAccount, api.ErrorCode == codeResources,
			api.ErrorCode == codeStoreFailed && (strings.HasPrefix(api.Description, "maximum bytes") || strings.HasPrefix(api.Description, "maximum messages exceeded")):
			return unavailable(fmt.Errorf("%w: %w", errFull, err))
		}
		return err
	}
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case slices.ContainsFunc([]error{natsgo.ErrMaxPayload, natsgo.ErrBadSubject}, is):
		return refused(err)
	// Without the subscription to the inbox no subject gets acks.
	case slices.ContainsFunc([]error{natsgo.ErrConnectionClosed, natsgo.ErrDisconnected, natsgo.ErrReconnectBufExceeded, jetstream.ErrJetStreamPublisherClosed}, is),
		is(broker.ErrDenied) && strings.Contains(err.Error(), "Subscription to"):
		return unavailable(err)
	}
	return err
}

func refused(err error) error     { return fmt.Errorf("%w: %w", broker.ErrRefused, err) }
func unavailable(err error) error { return fmt.Errorf("%w: %w", broker.ErrUnavailable, err) }

// An atomic batch is stored as a whole or not at all, with one ack, and costs the
// server one sync of its disk. ADR 0006 has measurements.
const (
	minBatch   = 100  // messages; a smaller call is sent one by one
	maxBatch   = 1000 // messages that a server takes in one batch
	maxBatches = 16   // in flight at once; a server takes 50 for each stream
)

// Headers of an atomic batch, see the NATS ADR-50.
const (
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
)

// batching reports whether batches are faster: the server syncs each write.
func (b *Broker) batching() bool {
	return b.opt.AtomicBatches || b.opt.Server != nil && b.opt.Server.Syncs()
}

// publishBatch publishes messages as an atomic batch and reports whether it was stored.
// The batch fails if the server refuses one of its messages, or has stored one before.
// Then the caller sends all of them again, one by one. If the batch was stored and its
// ack was lost, the stream knows the ids of its messages, so that they are not stored
// twice.
func (p publisher) publishBatch(ctx context.Context, s *session, batch []outgoingMessage) bool {
	if len(batch) < minBatch || !s.batches.Load() {
		return false
	}
	select {
	case p.batches <- struct{}{}:
		defer func() { <-p.batches }()
	case <-ctx.Done():
		return false
	}
	defer func() {
		for _, m := range batch {
			for _, name := range []string{headerBatchID, headerBatchSequence, headerBatchCommit} {
				m.Header.Del(name)
			}
		}
	}()
	id, last := nuid.Next(), len(batch)-1
	for i, m := range batch {
		m.Header.Set(headerBatchID, id)
		m.Header.Set(headerBatchSequence, strconv.Itoa(i+1))
		if i < last && s.conn.PublishMsg(m.Msg) != nil {
			return false
		}
		failpoint.Here("publishing")
	}
	batch[last].Header.Set(headerBatchCommit, "1")
	var err error
	duplicates := p.send(ctx, s, []outgoingMessage{{batch[last].Msg, &err}})
	return len(duplicates) == 0 && err == nil
}

// maxLookUps is how many messages are looked up at once: a thousand, one after the other, take
// longer than a publish may where the server is far away.
const maxLookUps = 32

// A duplicate is a message that was not stored, since the stream has a message with its
// id: a different message, or this one, sent before.
type duplicate struct {
	outgoingMessage
	sequence uint64 // sequence of the stored message with that id
}

// verifyDuplicates publishes duplicates again, without an id, unless the stored message
// with their id has the same subject and body. Anyone can compute the ids of events
// and dead letters, and learn those of commands, and a stream compares ids whatever the
// subject. So a producer of commands could otherwise claim the ids of future messages, and
// they would be lost.
//
// If the service may not read the stored message, the duplicate is published again: two
// copies are better than none. If the server does not answer, such as one of a cluster
// without a leader, the message fails, and the caller publishes it again with its id.
func (p publisher) verifyDuplicates(ctx context.Context, s *session, duplicates []duplicate) {
	if p.opt.Client || len(duplicates) == 0 {
		return
	}
	foreign := make([]bool, len(duplicates))
	var lookUps errgroup.Group
	lookUps.SetLimit(maxLookUps)
	for i, d := range duplicates {
		lookUps.Go(func() error {
			m, err := p.get(ctx, s, p.opt.Stream, getRequest{Sequence: d.sequence})
			if err != nil && !errors.Is(err, broker.ErrDenied) {
				*d.result = s.result(ctx, fmt.Errorf("verify a duplicate: %w", err))
				return nil
			}
			foreign[i] = m.Subject != d.Subject || !bytes.Equal(m.Data, d.Data)
			return nil
		})
	}
	_ = lookUps.Wait()
	var again []outgoingMessage
	for i, d := range duplicates {
		if foreign[i] {
			d.Header.Del(natsgo.MsgIdHdr)
			again = append(again, d.outgoingMessage)
		}
	}
	p.send(ctx, s, again)
}
