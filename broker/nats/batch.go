package nats

import (
	"context"
	"strconv"

	"github.com/nats-io/nuid"

	"github.com/event-service-agent/timer-service/internal/failpoint"
)

// An atomic batch is stored as a whole or not at all, with one ack, and costs the
// server one sync of its disk. ADR 0006 says what it gains.
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

// partSize returns how many messages to send before their acks are waited for.
func (p publisher) partSize(ctx context.Context, s *session, messages int) int {
	if p.opt.Client && messages >= minBatch && p.batching() {
		s.ask.Do(func() { p.askForBatches(ctx, s) })
	}
	if s.batches.Load() {
		return maxBatch
	}
	return messages
}

// askForBatches finds out for a client, which has not verified the stream, whether the
// stream takes batches. A client without the permission to ask publishes without batches.
func (p publisher) askForBatches(ctx context.Context, s *session) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if info, err := p.lookUpStream(ctx, s); err == nil {
		s.batches.Store(info.Config.AllowAtomicPublish)
	}
}

// publishBatch publishes messages as an atomic batch and reports whether it was stored.
// The batch fails if the server refuses one of its messages, or has stored one before.
// Then the caller sends all of them again, one by one. If the batch was stored and its
// ack was lost, the stream knows the ids of its messages, so that they are not stored
// twice.
func (p publisher) publishBatch(ctx context.Context, s *session, batch []outgoing) bool {
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
	duplicates := p.send(ctx, s, []outgoing{{batch[last].Msg, &err}})
	return len(duplicates) == 0 && err == nil
}
