package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	replayAtOnce = 2000             // messages of a batch
	replayStall  = 30 * time.Second // longest time without a record, where there should be one
)

// Replay reads partitions without a group, up to where they end now; those of commands
// up to what the group has committed. A server that is away for longer than some
// seconds ends it.
func (b *Broker) Replay(ctx context.Context, role string, kind broker.Kind, from []timer.Position, visit func([]broker.Stored) error) error {
	client, err := b.keeper.Current()
	if err != nil {
		return err
	}
	r := replay{client: client, kind: kind, visit: visit}
	if err := r.begin(ctx, b, role, from); err != nil {
		return unanswered(ctx, fmt.Errorf("replay: %w", err))
	}
	if len(r.unread) == 0 {
		return nil
	}
	if r.reader, err = b.dial(r.options()...); err != nil {
		return err
	}
	defer r.reader.Close()
	return r.run(ctx)
}

// A replay is one call of Replay.
type replay struct {
	client *kgo.Client // asks for offsets
	reader *kgo.Client
	kind   broker.Kind
	visit  func([]broker.Stored) error
	unread map[partition]*extent // from the next record on
}

// begin finds what is to be read.
func (r *replay) begin(ctx context.Context, b *Broker, role string, from []timer.Position) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	template := map[broker.Kind]string{
		broker.Commands: b.opt.Routing.Commands, broker.Events: b.opt.Routing.Events, broker.DeadLetter: b.opt.Routing.DeadLetters,
	}[r.kind]
	admin := kadm.NewClient(r.client)
	extents, err := extentsOf(ctx, admin, template)
	if err != nil {
		return err
	}
	var committed map[partition]int64
	if r.kind == broker.Commands {
		if committed, err = committedBy(ctx, admin, groupID{role, b.opt.Routing.Subscription()}.name(b.opt.Prefix)); err != nil {
			return err
		}
	}
	behind := make(map[string]int64)
	for _, p := range from {
		if behind[p.Log] = p.Observed; r.kind == broker.Commands {
			behind[p.Log] = p.Committed
		}
	}
	r.unread = make(map[partition]*extent)
	for _, e := range extents {
		e.start = max(e.start, behind[e.log])
		if r.kind == broker.Commands {
			e.end = min(e.end, committed[e.partition])
		}
		if e.start < e.end {
			r.unread[e.partition] = &e
		}
	}
	return nil
}

// options returns those of the client that reads. It fetches while visit works, one
// fetch a server.
func (r *replay) options() []kgo.Opt {
	starts := make(map[string]map[int32]kgo.Offset)
	for id, e := range r.unread {
		if starts[id.topic] == nil {
			starts[id.topic] = make(map[int32]kgo.Offset)
		}
		starts[id.topic][id.number] = kgo.NewOffset().At(e.start)
	}
	return []kgo.Opt{
		kgo.ConsumePartitions(starts),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // a log that is cut meanwhile is read from what is left
		kgo.KeepControlRecords(),                          // so that the end is met, whatever record is there
		kgo.FetchMaxBytes(8 << 20),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.MaxDecompressBatchBytes(maxBatch),
	}
}

// run reads until nothing is unread.
func (r *replay) run(ctx context.Context) error {
	for stalled := time.Duration(0); len(r.unread) > 0; {
		polling, cancel := context.WithTimeout(ctx, readTimeout)
		fetches := r.reader.PollRecords(polling, replayAtOnce)
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
		progress, err := r.receive(fetches)
		if err != nil {
			return err
		}
		failed := r.skip(fetches)
		if _, answered := errors.AsType[*kerr.Error](failed); answered {
			return fmt.Errorf("replay: %w", failed)
		}
		if stalled += readTimeout; progress {
			stalled = 0
		}
		if stalled == 0 {
			continue
		}
		if err := r.recheck(ctx); err != nil {
			return unanswered(ctx, fmt.Errorf("replay: %w", err))
		}
		if stalled >= replayStall && len(r.unread) > 0 {
			return fmt.Errorf("replay: %d partitions have no record for %v, where one should be: %w", len(r.unread), stalled, failed)
		}
	}
	return nil
}

// receive visits the records that were fetched. It reports whether there were any.
func (r *replay) receive(fetches kgo.Fetches) (progress bool, err error) {
	batch := make([]broker.Stored, 0, fetches.NumRecords())
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		e := r.unread[partition{f.Topic, f.Partition}]
		for _, record := range f.Records {
			if progress = true; e == nil || record.Offset < e.start || record.Offset >= e.end {
				continue
			}
			e.start = record.Offset + 1
			if record.Attrs.IsControl() || record.Value == nil && r.kind == broker.DeadLetter {
				continue // the end of a transaction, or of a dead letter
			}
			batch = append(batch, broker.Stored{Message: unmarshal(record), Log: e.log, Number: record.Offset + 1, At: record.Timestamp.UTC()})
		}
		if n := len(f.Records); e != nil && n > 0 && f.Records[n-1].Offset+1 >= e.end {
			r.done(e)
		}
	})
	if len(batch) == 0 {
		return progress, nil
	}
	return progress, r.visit(batch)
}

func (r *replay) done(e *extent) {
	delete(r.unread, e.partition)
	r.reader.PauseFetchPartitions(map[string][]int32{e.topic: {e.number}})
}

// skip returns the errors of a poll, and skips batches that are too large when they are
// unpacked, as the consumers of commands do.
func (r *replay) skip(fetches kgo.Fetches) error {
	fetches.EachError(func(topic string, number int32, err error) {
		if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
			if e := r.unread[partition{topic, number}]; e != nil && large.NextOffset >= e.end {
				r.done(e)
			}
		}
	})
	return skipTooLarge(r.reader, fetches)
}

// recheck finds, when no record comes, which partitions have none any more: they were
// cut, or the last dead letters were compacted away.
func (r *replay) recheck(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var extents []extent
	for _, e := range r.unread {
		extents = append(extents, *e)
	}
	starts, err := kadm.NewClient(r.client).ListStartOffsets(ctx, topicsOf(extents)...)
	if err != nil {
		return err
	}
	for id, e := range r.unread {
		start, err := offsetIn(starts, id)
		if err != nil {
			return err
		}
		if start >= e.end || r.kind == broker.DeadLetter {
			r.done(e)
		}
	}
	return nil
}
