package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/internal/failpoint"
)

// commitOften commits handled messages at short intervals, until ctx is done.
func (g *group) commitOften(ctx context.Context, member *kgo.Client) {
	t := time.NewTicker(commitInterval)
	defer t.Stop()
	var errs repeated
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		g.committing.Lock()
		err := g.commit(ctx, member)
		g.committing.Unlock()
		if errs.isNew(ctx, err) {
			g.broker.log.WarnContext(ctx, "commit failed, will retry", "group", g.id.name(), "error", err)
		}
	}
}

// commit commits the messages that were handled since the last commit. The caller holds
// committing. Offsets must be committed in the order in which they were computed, and
// while the partition is ours.
func (g *group) commit(ctx context.Context, member *kgo.Client) error {
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	g.mu.Lock()
	for id, p := range g.parts {
		low := p.low()
		if low == p.committed {
			continue
		}
		if offsets[id.topic] == nil {
			offsets[id.topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[id.topic][id.number] = kgo.EpochOffset{Epoch: p.epoch, Offset: low}
	}
	g.mu.Unlock()
	if len(offsets) == 0 {
		return nil
	}
	failpoint.Here("acked")
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	var failed error
	member.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if failed = err; err != nil {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					failed = fmt.Errorf("topic %s, partition %d: %w", t.Topic, p.Partition, err)
				} else if part := g.parts[partition{t.Topic, p.Partition}]; part != nil {
					part.committed = offsets[t.Topic][p.Partition].Offset
				}
			}
		}
	})
	return failed
}
