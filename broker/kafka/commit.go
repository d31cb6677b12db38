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

// commitOften commits what was handled, until ctx is done.
func (g *group) commitOften(ctx context.Context, member *kgo.Client) {
	t := time.NewTicker(commitInterval)
	defer t.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := g.commit(ctx, member, commitTimeout)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != "" && text != last && ctx.Err() == nil {
			g.broker.log.WarnContext(ctx, "commit failed, will retry", "group", g.name(), "error", err)
		}
		last = text
	}
}

// commit commits what was handled since the last time.
func (g *group) commit(ctx context.Context, member *kgo.Client, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	g.committing.Lock()
	defer g.committing.Unlock()
	return g.commitLocked(ctx, member)
}

// commitLocked commits. Committing must be held: an offset that is computed
// before another must be committed before it, and while the partition is ours.
func (g *group) commitLocked(ctx context.Context, member *kgo.Client) error {
	var parts []*part
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	g.mu.Lock()
	for id, p := range g.parts {
		if !p.dirty {
			continue
		}
		p.dirty = false
		parts = append(parts, p)
		if offsets[id.topic] == nil {
			offsets[id.topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[id.topic][id.number] = kgo.EpochOffset{Epoch: p.epoch, Offset: p.low()}
	}
	g.mu.Unlock()
	if len(parts) == 0 {
		return nil
	}
	failpoint.Here("acked")
	committed := make(map[partition]bool)
	var failed error
	member.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if failed = err; err != nil {
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					failed = fmt.Errorf("topic %s, partition %d: %w", t.Topic, p.Partition, err)
					continue
				}
				committed[partition{t.Topic, p.Partition}] = true
			}
		}
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range parts {
		if !committed[p.partition] {
			p.dirty = true
		}
	}
	return failed
}
