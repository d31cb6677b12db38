package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker"
)

const (
	readAtOnce  = 2000             // records of a batch
	readTimeout = 2 * time.Second  // longest wait for a record before its leader is asked
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
	client, err := b.dial( // it fetches while visit works, one fetch for each server
		kgo.ConsumePartitions(starts.KOffsets()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // continues if the log is cut meanwhile
		kgo.KeepControlRecords(),                          // the last record may be one
		kgo.FetchMaxBytes(8<<20),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MaxDecompressBatchBytes(maxBatch),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for stalled := time.Duration(0); len(unread) > 0; {
		polling, cancel := context.WithTimeout(ctx, readTimeout)
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
			stalled = 0
			continue
		}
		if stalled += readTimeout; stalled >= readStall {
			return cmp.Or(failed, errNoRecord)
		}
		for id, e := range unread {
			switch ended, err := e.ended(ctx, client); {
			case err != nil:
				return unanswered(ctx, err)
			case ended && kind != broker.DeadLetter:
				return fmt.Errorf("topic %s, partition %d, offset %d: %w", id.topic, id.number, e.start, errNoRecord)
			case ended:
				delete(unread, id)
			}
		}
	}
	return nil
}

var errNoRecord = errors.New("there is no record where one should be")

// ended asks the leader of a partition whether it has no record any more from the start of the
// extent on: the last dead letters may have been compacted away. A server that is slow, or has
// paused, looks the same to a client that only polls.
func (e *extent) ended(ctx context.Context, client *kgo.Client) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	leader, _, err := client.PartitionLeader(e.topic, e.number)
	if err != nil { // the client has not learnt it yet
		return false, answers(ctx, client)
	}
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = e.number, e.start, 1 // a whole batch comes nevertheless
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID, topic.Partitions = e.topic, e.id, []kmsg.FetchRequestTopicPartition{part}
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.IsolationLevel, req.Topics = 1, readCommitted, []kmsg.FetchRequestTopic{topic}
	resp, err := client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return false, err
	}
	topics := resp.(*kmsg.FetchResponse).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 1 {
		return false, nil
	}
	p := topics[0].Partitions[0]
	return p.ErrorCode == 0 && len(p.RecordBatches) == 0, nil
}

// readCommitted has a fetch end before the first transaction that is open.
const readCommitted = 1

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
