package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
)

const (
	readAtOnce  = 2000             // records of a batch
	readTimeout = 5 * time.Second  // longest wait for a record before the offsets are checked
	readStall   = 30 * time.Second // longest time without a record that should exist
)

// A reading reads the records of partitions once, without a group. It fails if a server
// is away for longer than some seconds.
type reading struct {
	client    *kgo.Client
	compacted bool                  // compaction may have removed the last records of a partition
	unread    map[partition]*extent // rest of each partition
	visit     func(batch []storedRecord) error
}

// A storedRecord is a record with its log. A record without a value says that the dead letter
// with its key was removed.
type storedRecord struct {
	*kgo.Record

	log string // name as in [timer.Position]
}

// read calls visit with batches of the records of extents, oldest first in each extent.
func (b *Broker) read(ctx context.Context, kind broker.Kind, extents []extent, visit func(batch []storedRecord) error) error {
	r := reading{compacted: kind == broker.DeadLetter, unread: make(map[partition]*extent), visit: visit}
	var starts kadm.Offsets
	for _, e := range extents {
		if e.start >= e.end {
			continue
		}
		r.unread[e.partition] = &e
		starts.AddOffset(e.topic, e.number, e.start, -1)
	}
	var err error
	if r.client, err = b.dial( // it fetches while visit works, one fetch for each server
		kgo.ConsumePartitions(starts.KOffsets()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // continues if the log is cut meanwhile
		kgo.KeepControlRecords(),                          // the last record may be one
		kgo.FetchMaxBytes(8<<20),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MaxDecompressBatchBytes(maxBatch),
	); err != nil {
		return err
	}
	defer r.client.Close()
	return r.run(ctx)
}

// run reads until all extents are read.
func (r *reading) run(ctx context.Context) error {
	for stalled := time.Duration(0); len(r.unread) > 0; {
		polling, cancel := context.WithTimeout(ctx, readTimeout)
		fetches := r.client.PollRecords(polling, readAtOnce)
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
		batch, progress := r.receive(fetches)
		if len(batch) > 0 {
			if err := r.visit(batch); err != nil {
				return err
			}
		}
		failed := skipTooLarge(r.client, fetches)
		if _, answered := errors.AsType[*kerr.Error](failed); answered {
			return failed
		}
		if progress {
			stalled = 0
			continue
		}
		if err := r.recheck(ctx); err != nil {
			return unanswered(ctx, err)
		}
		if stalled += readTimeout; stalled >= readStall && len(r.unread) > 0 {
			return fmt.Errorf("%d partitions have no record for %v, where one should be: %w", len(r.unread), stalled, failed)
		}
	}
	return nil
}

// receive returns the fetched records that are unread, and whether the position in any
// partition has advanced. It skips a batch that is too large when it is decompressed.
func (r *reading) receive(fetches kgo.Fetches) (batch []storedRecord, progress bool) {
	batch = make([]storedRecord, 0, fetches.NumRecords())
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		e := r.unread[partition{f.Topic, f.Partition}]
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
	})
	r.finish()
	return batch, progress
}

// finish stops reading the partitions that were read to their end.
func (r *reading) finish() {
	for id, e := range r.unread {
		if e.start >= e.end {
			delete(r.unread, id)
			r.client.PauseFetchPartitions(map[string][]int32{e.topic: {e.number}})
		}
	}
}

// recheck runs when no record comes. It finds the partitions that have no more records,
// since they were cut, or since their last dead letters were compacted away.
func (r *reading) recheck(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var topics []string
	for id := range r.unread {
		topics = append(topics, id.topic)
	}
	starts, err := kadm.NewClient(r.client).ListStartOffsets(ctx, topics...)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return err
	}
	for id, e := range r.unread {
		first, _ := starts.Lookup(id.topic, id.number)
		if e.start = max(e.start, first.Offset); r.compacted {
			e.start = e.end
		}
	}
	r.finish()
	return nil
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
			if r.Value != nil || kind != broker.DeadLetter {
				batch = append(batch, broker.Stored{Message: unmarshal(r.Record), Log: r.log, Number: r.Offset + 1, At: r.Timestamp.UTC()})
			}
		}
		if len(batch) == 0 {
			return nil
		}
		return visit(batch)
	})
}
