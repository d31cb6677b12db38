package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
)

const (
	readAtOnce  = 2000             // records of a batch
	readTimeout = 5 * time.Second  // longest wait for a record before the leaders are asked
	readAgain   = 2 * time.Second  // longest wait for a record after they have answered
	readStall   = 30 * time.Second // longest time without a record that should exist
)

// A storedRecord is a record with its log.
type storedRecord struct {
	*kgo.Record

	log string // name as in [timer.Number]
}

// removal reports whether the record says that a dead letter was removed.
func (r storedRecord) removal(kind broker.Kind) bool {
	return r.Value == nil && kind == broker.DeadLetter
}

// read calls visit with batches of the records of extents, oldest first in each extent. It
// reads them once, without a group, and goes on for ever if their end is math.MaxInt64. It
// fails if a server is away for longer than some seconds.
func (b *Broker) read(ctx context.Context, kind broker.Kind, extents []extent, visit func(batch []storedRecord) error) error {
	unread := make(map[partition]*extent) // rest of each partition
	var starts kadm.Offsets
	follows := false
	for _, e := range extents {
		follows = follows || e.end == math.MaxInt64
		if e.start >= e.end {
			continue
		}
		unread[e.partition] = &e
		starts.AddOffset(e.topic, e.number, e.start, -1)
	}
	answered := &fetchCount{of: make(map[int32]int)}
	client, err := b.dial( // it fetches while visit works, one fetch for each server
		kgo.ConsumePartitions(starts.KOffsets()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // continues if the log is cut meanwhile
		kgo.KeepControlRecords(),                          // the last record may be one
		kgo.FetchMaxBytes(8<<20),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MaxDecompressBatchBytes(maxBatch),
		kgo.WithHooks(answered),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	stalled, wait := time.Duration(0), readTimeout
	for len(unread) > 0 {
		answered.reset()
		polling, cancel := context.WithTimeout(ctx, wait)
		fetches := client.PollRecords(polling, readAtOnce)
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
		batch, progress := receive(client, fetches, unread)
		if len(batch) > 0 {
			if err := visit(batch); err != nil {
				return err
			}
		}
		failed := skipTooLarge(client, fetches)
		if _, refused := errors.AsType[*kerr.Error](failed); refused {
			return failed
		}
		if progress || follows {
			stalled, wait = 0, readTimeout
			continue
		}
		// The last dead letters may have been compacted away. A server that is slow, or has paused,
		// looks the same until it has answered fetches.
		if kind == broker.DeadLetter && failed == nil && wait == readAgain && answered.byLeaders(client, unread) {
			return nil
		}
		if err := leads(ctx, client, unread); err != nil {
			return unanswered(ctx, err)
		}
		stalled, wait = stalled+wait, readAgain
		if stalled >= readStall {
			return fmt.Errorf("%d partitions have no record for %v, where one should be: %w", len(unread), stalled, cmp.Or(failed, errNoRecord))
		}
	}
	return nil
}

var errNoRecord = errors.New("the servers answer without it")

// A fetchCount counts the fetches that each server has answered.
type fetchCount struct {
	mu sync.Mutex
	of map[int32]int
}

// OnBrokerE2E is called by the client library after each request.
func (f *fetchCount) OnBrokerE2E(server kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key == int16(kmsg.Fetch) && e2e.Err() == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.of[server.NodeID]++
	}
}

func (f *fetchCount) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.of)
}

// byLeaders reports whether the leaders of all unread partitions have answered two fetches. If no
// record was polled, the first answer had none: the library asks again when all were polled.
func (f *fetchCount) byLeaders(client *kgo.Client, unread map[partition]*extent) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range unread {
		if leader, _, err := client.PartitionLeader(id.topic, id.number); err != nil || f.of[leader] < 2 {
			return false
		}
	}
	return true
}

// receive returns the fetched records that are unread, and whether the position in any
// partition has advanced. It skips a batch that is too large when it is decompressed. It
// stops reading the partitions that are read to their end.
func receive(client *kgo.Client, fetches kgo.Fetches, unread map[partition]*extent) (batch []storedRecord, progress bool) {
	batch = make([]storedRecord, 0, fetches.NumRecords())
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		id := partition{f.Topic, f.Partition}
		e := unread[id]
		if e == nil {
			return
		}
		before := e.start
		for _, record := range f.Records {
			if record.Offset >= e.start && record.Offset < e.end && !record.Attrs.IsControl() {
				batch = append(batch, storedRecord{record, e.log})
			}
			e.start = max(e.start, record.Offset+1)
		}
		if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](f.Err); ok {
			e.start = max(e.start, large.NextOffset)
		}
		progress = progress || e.start > before
		if e.start >= e.end {
			delete(unread, id)
			client.PauseFetchPartitions(map[string][]int32{id.topic: {id.number}})
		}
	})
	return batch, progress
}

// leads returns nil if the leaders of all partitions answer.
func leads(ctx context.Context, client *kgo.Client, unread map[partition]*extent) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var topics []string
	for id := range unread {
		topics = append(topics, id.topic)
	}
	starts, err := kadm.NewClient(client).ListStartOffsets(ctx, topics...)
	return cmp.Or(err, starts.Error())
}

// Read reads the partitions of a kind, see [broker.History].
func (b *Broker) Read(ctx context.Context, kind broker.Kind, after, upTo map[string]int64, visit func([]broker.Stored) error) error {
	extents, err := b.extents(ctx, b.opt.Routing.TopicOf(kind, anyTenant))
	if err != nil {
		return err
	}
	for i := range extents {
		e := &extents[i]
		if e.start = max(e.start, after[e.log]); upTo != nil {
			e.end = min(e.end, upTo[e.log])
		}
	}
	return b.read(ctx, kind, extents, func(records []storedRecord) error {
		batch := make([]broker.Stored, 0, len(records))
		for _, r := range records {
			if !r.removal(kind) {
				batch = append(batch, broker.Stored{Message: unmarshal(r.Record), Log: r.log, Number: r.Offset + 1, At: r.Timestamp.UTC()})
			}
		}
		if len(batch) == 0 {
			return nil
		}
		return visit(batch)
	})
}
