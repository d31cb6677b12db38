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
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		limited, cancel := context.WithTimeout(ctx, commitTimeout)
		err := g.commit(limited, member)
		cancel()
		if err != nil && err.Error() != told && ctx.Err() == nil {
			g.broker.log.WarnContext(ctx, "commit failed, will retry", "group", g.name(), "error", err)
		}
		told = text(err)
	}
}

// commit commits what was handled since the last time.
func (g *group) commit(ctx context.Context, member *kgo.Client) error {
	g.committing.Lock()
	defer g.committing.Unlock()
	return g.send(ctx, member)
}

// A mark is what is committed of a partition.
type mark struct {
	part    *part
	version int
	above   string // metadata
}

// send commits. Committing must be held: an offset that is computed before
// another must be committed before it, and while the partition is ours.
func (g *group) send(ctx context.Context, member *kgo.Client) error {
	marks := make(map[partition]mark)
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	g.mu.Lock()
	for id, p := range g.parts {
		if p.version == p.sent {
			continue
		}
		offset, above := p.mark()
		marks[id] = mark{p, p.version, above.encode(offset)}
		if offsets[id.topic] == nil {
			offsets[id.topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[id.topic][id.number] = kgo.EpochOffset{Epoch: p.epoch, Offset: offset}
	}
	g.mu.Unlock()
	if len(marks) == 0 {
		return nil
	}
	failpoint.Here("acked")
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			t := &req.Topics[i]
			for j := range t.Partitions {
				above := marks[partition{t.Topic, t.Partitions[j].Partition}].above
				t.Partitions[j].Metadata = &above
			}
		}
		return nil
	})
	var failed error
	member.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		failed = g.committed(marks, resp, err)
	})
	return failed
}

// committed notes what Kafka has taken, and returns what it has not.
func (g *group) committed(marks map[partition]mark, resp *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if e := kerr.ErrorForCode(p.ErrorCode); e != nil {
				err = fmt.Errorf("partition %d: %w", p.Partition, e)
				continue
			}
			if m, ok := marks[partition{t.Topic, p.Partition}]; ok {
				m.part.sent = max(m.part.sent, m.version)
			}
		}
	}
	return err
}
