package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/internal/pause"
)

const (
	sessionTimeout   = 10 * time.Second       // after which the partitions of a process that died go to others
	heartbeat        = 2 * time.Second        // must be well below
	rebalanceTimeout = 30 * time.Second       // longest time that others wait for us to let go of partitions
	revokeTimeout    = 3 * time.Second        // longest wait for what is in flight before we do
	commitInterval   = 200 * time.Millisecond // between commits, while there is something to commit
	commitTimeout    = 5 * time.Second
	patternLook      = 3 * time.Second // between looks for new topics of a pattern
	lastTimeout      = 3 * time.Second // longest wait for the last commit, and for leaving
	maxBatch         = 256 << 20       // bytes of a batch when it is unpacked; servers take a packed million
)

// run is a member of the consumer group until no subscription is left.
func (g *group) run() {
	defer close(g.gone)
	if g.before != nil {
		<-g.before.gone
		g.before = nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with ctx
		select {
		case <-g.stop:
		case <-ctx.Done():
		}
		cancel()
	}()
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		err := g.consume(ctx)
		if ctx.Err() != nil {
			return
		}
		g.broker.log.WarnContext(ctx, "subscription broke, will retry", "group", g.name(), "error", err, "retry_in", backoff)
		if !pause.For(ctx, backoff) {
			return
		}
	}
}

func (g *group) name() string { return g.id.name(g.broker.opt.Prefix) }

// options returns those of the client that consumes.
func (g *group) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ConsumerGroup(g.name()),
		kgo.ConsumeTopics(g.id.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // a role that comes late, or a log that was cut, gets what there is
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(sessionTimeout),
		kgo.HeartbeatInterval(heartbeat),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.FetchMaxBytes(8 << 20),
		kgo.MaxDecompressBatchBytes(maxBatch),
		kgo.OnPartitionsAssigned(g.assigned),
		kgo.OnPartitionsRevoked(g.revoked),
		kgo.OnPartitionsLost(g.lost),
		kgo.OnOffsetsFetched(g.fetched),
	}
	if g.broker.opt.Instance != "" {
		opts = append(opts, kgo.InstanceID(g.broker.opt.Instance))
	}
	if pattern, ok := tenantPattern(g.id.topic); ok {
		opts = append(opts, kgo.ConsumeTopics(pattern), kgo.ConsumeRegex(), kgo.MetadataMaxAge(patternLook))
	}
	return opts
}

// consume joins the group and polls until ctx is done. It returns an error if it
// has to begin anew.
func (g *group) consume(ctx context.Context) error {
	client := g.broker.usable(ctx.Done())
	if client == nil {
		return ErrClosed
	}
	if !strings.Contains(g.id.topic, anyTenant) {
		if err := g.broker.ensure(ctx, client, g.id.topic); err != nil && !errors.Is(err, errMissing) {
			return fmt.Errorf("subscribe to %s: %w", g.id.topic, err)
		}
	}
	member, err := g.broker.dial(g.options()...)
	if err != nil {
		return err
	}
	polling, cancel := context.WithCancel(ctx)
	defer cancel()
	committed := make(chan struct{})
	go func() {
		defer close(committed)
		g.commitOften(polling, member)
	}()
	err = g.poll(polling, member)
	cancel()
	<-committed
	g.part(member)
	return err
}

// part commits for the last time and leaves the group.
func (g *group) part(member *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), lastTimeout)
	defer cancel()
	member.AllowRebalance()
	if err := g.commit(ctx, member); err != nil {
		g.broker.log.WarnContext(ctx, "last commit failed, messages will come again", "group", g.name(), "error", err)
	}
	_ = member.LeaveGroupContext(ctx) // if not, the session ends by itself
	member.CloseAllowingRebalance()
}

// poll takes what comes, as long as somebody wants it, until ctx is done. It
// returns an error if the topic was deleted and made again: the client library
// stays with the one it knew.
func (g *group) poll(ctx context.Context, member *kgo.Client) error {
	told := ""
	for g.awaitHunger(ctx) {
		limited, cancel := ctx, context.CancelFunc(func() {})
		if g.throttle(member) {
			limited, cancel = context.WithTimeout(ctx, 100*time.Millisecond) // then it may be otherwise
		}
		fetches := member.PollRecords(limited, highWater)
		cancel()
		g.receive(fetches)
		member.AllowRebalance()
		err := g.trouble(member, fetches)
		if errors.Is(err, kerr.UnknownTopicID) {
			return err
		}
		if err != nil && err.Error() != told && ctx.Err() == nil {
			told = err.Error()
			g.broker.log.WarnContext(ctx, "trouble with a subscription, will retry", "group", g.name(), "error", err)
			g.broker.check()
		}
	}
	return nil
}

// trouble returns all that went wrong in a poll. It mends itself but a batch
// that is too large when it is unpacked, which is stepped over: it would be met
// again for ever.
func (g *group) trouble(member *kgo.Client, fetches kgo.Fetches) (trouble error) {
	fetches.EachError(func(topic string, number int32, err error) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return
		}
		if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
			member.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {number: {Epoch: large.Epoch, Offset: large.NextOffset}}})
		}
		if topic != "" {
			err = fmt.Errorf("topic %s, partition %d: %w", topic, number, err)
		}
		trouble = errors.Join(trouble, err)
	})
	return trouble
}

// receive takes what was polled. Rebalances wait meanwhile.
func (g *group) receive(fetches kgo.Fetches) {
	g.mu.Lock()
	defer g.mu.Unlock()
	any := false
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		id := partition{f.Topic, f.Partition}
		for _, r := range f.Records {
			p := g.parts[id]
			if p == nil {
				return // it went to others
			}
			p.add(r, r.Value == nil && kindOf(g.broker.opt.Routing, r.Topic) == deadLetters)
			any = true
		}
	})
	if any {
		failpoint.Here("fetched")
		g.wake()
	}
}

// assigned begins with partitions.
func (g *group) assigned(_ context.Context, _ *kgo.Client, got map[string][]int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for topic, numbers := range got {
		for _, n := range numbers {
			id := partition{topic, n}
			g.drop(id)
			g.parts[id] = newPart(g, id)
		}
	}
	g.share()
}

// fetched learns what was handled before the partitions were assigned.
func (g *group) fetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	note := func(topic string, number int32, offset int64, metadata *string, code int16) {
		p := g.parts[partition{topic, number}]
		if p == nil || p.next >= 0 || kerr.ErrorForCode(code) != nil {
			return
		}
		if metadata == nil {
			metadata = new(string)
		}
		p.learn(offset, *metadata)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			note(t.Topic, p.Partition, p.Offset, p.Metadata, p.ErrorCode)
		}
	}
	for _, in := range resp.Groups {
		for _, t := range in.Topics {
			for _, p := range t.Partitions {
				note(t.Topic, p.Partition, p.Offset, p.Metadata, p.ErrorCode)
			}
		}
	}
	return nil
}

// revoked lets go of partitions, after what is in flight was settled and
// committed, as far as that does not take long.
func (g *group) revoked(ctx context.Context, member *kgo.Client, lost map[string][]int32) {
	var parts []*part
	g.mu.Lock()
	for topic, numbers := range lost {
		for _, n := range numbers {
			if p := g.parts[partition{topic, n}]; p != nil {
				p.sub, p.leaving = nil, true
				parts = append(parts, p)
			}
		}
	}
	g.mu.Unlock()
	if len(parts) == 0 {
		return
	}
	g.quiet(parts, revokeTimeout)
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	g.committing.Lock()
	defer g.committing.Unlock()
	if err := g.send(ctx, member); err != nil {
		g.broker.log.WarnContext(ctx, "commit before a rebalance failed, messages will come again", "group", g.name(), "error", err)
	}
	g.lose(lost)
}

// lost lets go of partitions that others have already.
func (g *group) lost(ctx context.Context, _ *kgo.Client, lost map[string][]int32) {
	if len(lost) > 0 {
		g.broker.log.WarnContext(ctx, "partitions lost, messages will come again", "group", g.name())
	}
	g.committing.Lock()
	defer g.committing.Unlock()
	g.lose(lost)
}

func (g *group) lose(lost map[string][]int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for topic, numbers := range lost {
		for _, n := range numbers {
			g.drop(partition{topic, n})
		}
	}
	g.share()
}

// drop forgets a partition.
func (g *group) drop(id partition) {
	if p := g.parts[id]; p != nil {
		p.gone.Store(true)
		delete(g.parts, id)
		delete(g.paused, id)
	}
}
