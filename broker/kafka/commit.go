package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// commitOften commits handled messages at short intervals, until ctx is done.
func (g *group) commitOften(ctx context.Context, member *kgo.Client) {
	var errs errorFilter
	for pause.For(ctx, commitInterval) {
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
	var handled []*kgo.Record // the last one of each partition
	g.mu.Lock()
	for id, p := range g.parts {
		if low := p.low(); low != p.committed {
			handled = append(handled, &kgo.Record{Topic: id.topic, Partition: id.number, LeaderEpoch: p.epoch, Offset: low - 1})
		}
	}
	g.mu.Unlock()
	if len(handled) == 0 {
		return nil
	}
	failpoint.Here("acked")
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := member.CommitRecords(ctx, handled...); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range handled {
		if p := g.parts[partition{r.Topic, r.Partition}]; p != nil {
			p.committed = r.Offset + 1
		}
	}
	return nil
}
