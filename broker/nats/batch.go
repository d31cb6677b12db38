package nats

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/event-service-agent/timer-service/internal/failpoint"
)

const (
	minBatch   = 32   // messages; fewer gain nothing: a batch costs the server about 3 ms (measured 2026-11)
	maxBatch   = 1000 // messages a server takes in one batch
	maxBatches = 16   // in flight at once; a server takes 50 of a stream
)

// Headers of an atomic batch, see the NATS ADR-50.
const (
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
)

// publishBatches publishes as many of the messages as it can in atomic batches,
// if that is the faster way. It returns the rest, to be published one by one:
// also when a batch was turned down, whatever the reason. A batch that was stored
// though its ack is lost is known to the stream by the ids of its messages.
func (p publisher) publishBatches(ctx context.Context, s *session, messages []*natsgo.Msg) ([]*natsgo.Msg, error) {
	if len(messages) < minBatch {
		return messages, nil
	}
	if p.opt.Client {
		s.ask.Do(func() { p.askForBatches(ctx, s) })
	}
	if !s.atomic.Load() {
		return messages, nil
	}
	if len(messages) >= probes*probed {
		published, err := p.look(ctx, s, messages)
		if err != nil {
			return messages, err
		}
		messages = messages[published:]
	}
	for len(messages) >= minBatch && s.pace.slow.Load() {
		n := min(len(messages), maxBatch)
		if !p.publishBatch(ctx, s, messages[:n]) {
			break
		}
		messages = messages[n:]
	}
	return messages, nil
}

// look finds out which way is the faster one, now and then; all wait for the first
// time. It returns how many messages it has published to that end.
func (p publisher) look(ctx context.Context, s *session, messages []*natsgo.Msg) (published int, err error) {
	probe := func() {
		published = probes * probed
		err = p.probe(ctx, s, messages[:published])
	}
	if s.pace.first.Do(probe); published == 0 && s.pace.due() {
		probe()
	}
	return published, err
}

// probe publishes messages one by one to see how long that takes, at the pace of
// all who do so meanwhile. The best try counts: a server that is slow once may
// have had something else to do.
func (p publisher) probe(ctx context.Context, s *session, messages []*natsgo.Msg) error {
	slow := true
	for try := range slices.Chunk(messages, probed) {
		before, began := s.pace.acked.Load(), time.Now() //nolint:forbidigo // of the speed of a server, not of timers
		if err := p.pipeline(ctx, s, try); err != nil {
			return err
		}
		took := time.Since(began) //nolint:forbidigo // as above
		slow = slow && took > slowMessage*time.Duration(s.pace.acked.Load()-before)
	}
	s.pace.slow.Store(slow)
	return nil
}

// A pace is how fast a server takes messages one by one. A server does not tell
// whether it syncs each of them to its disk. If it does, an atomic batch, which
// costs one sync, is ten times as fast; if not, it costs the server half as much
// again (measured 2026-11).
type pace struct {
	first sync.Once    // look
	slow  atomic.Bool  // batches are faster
	calls atomic.Int64 // that were large enough to look, after the first
	acked atomic.Int64 // messages that were taken one by one
}

const (
	slowMessage = 50 * time.Microsecond // of many in a row: a server that syncs each takes 70 to 200, one that does not 20, and a batch 30 to 60
	probed      = 64                    // messages in a row
	probes      = 3                     // such tries
	probeEvery  = 64                    // calls; the first time may have been a bad one, or the server is replaced
)

// due reports whether it is time to look again.
func (p *pace) due() bool { return p.calls.Add(1)%probeEvery == 0 }

// askForBatches finds out whether the stream takes batches. Who may not ask does
// without.
func (p publisher) askForBatches(ctx context.Context, s *session) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if config, err := p.lookUpStream(ctx, s); err == nil {
		s.atomic.Store(config.AllowAtomicPublish)
	}
}

// publishBatch reports whether the batch is stored.
func (p publisher) publishBatch(ctx context.Context, s *session, batch []*natsgo.Msg) bool {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
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
		if i < last && s.conn.PublishMsg(m) != nil {
			return false
		}
		failpoint.Here("publishing")
	}
	batch[last].Header.Set(headerBatchCommit, "1")
	var failed failures
	known := s.acks.send(ctx, batch[last:], &failed)
	return len(known) == 0 && failed.messages() == 0
}
