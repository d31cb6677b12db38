package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/internal/pause"
)

const (
	sessionTimeout   = 10 * time.Second       // until others get the partitions of a dead process
	heartbeat        = 2 * time.Second        // interval of heartbeats, well below sessionTimeout
	rebalanceTimeout = 30 * time.Second       // longest wait of others for us to release partitions
	drainTimeout     = 3 * time.Second        // longest wait for messages in flight before that
	commitInterval   = 200 * time.Millisecond // between commits, while there is something to commit
	commitTimeout    = 3 * time.Second
	rejoinPause      = 500 * time.Millisecond // before the group is joined again after an error
	newTopics        = 3 * time.Second        // longest time until a new topic of a pattern is found
	pollTimeout      = time.Second            // until a poll without an error counts as one that works
	pollPause        = 50 * time.Millisecond  // after a poll of nothing but errors
	// maxBatch is the most bytes of a decompressed batch. Servers accept a compressed
	// batch of a million bytes, which may be far larger.
	maxBatch = 256 << 20
)

// run is a member of the consumer group until ctx is done, when no subscription is left.
func (g *group) run(ctx context.Context) {
	defer close(g.gone)
	if g.before != nil {
		<-g.before.gone
		g.before = nil
	}
	defer g.broker.failures.Set(g, nil)
	for ctx.Err() == nil {
		if err := g.consume(ctx); err != nil && g.fails(err) && ctx.Err() == nil {
			g.broker.log.WarnContext(ctx, "subscription failed, will retry", "group", g.id.name(), "error", err)
		}
		pause.For(ctx, rejoinPause)
	}
}

// options returns the options of the client that consumes.
func (g *group) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ConsumerGroup(g.id.name()),
		kgo.ConsumeTopics(g.id.topic),
		// A new role reads from the beginning, and so does one whose offset was removed.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(sessionTimeout),
		kgo.HeartbeatInterval(heartbeat),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.FetchMaxBytes(8 << 20),
		// A fetch is delivered before the next one begins. With much of each partition in it
		// the backlog of one tenant's topic would hold up the commands of the others.
		kgo.FetchMaxPartitionBytes(64 << 10),
		kgo.MaxDecompressBatchBytes(maxBatch),
		kgo.OnPartitionsAssigned(g.assigned),
		kgo.OnPartitionsRevoked(g.revoked),
		kgo.OnPartitionsLost(g.lost),
		kgo.WithHooks(&g.broker.outages),
		// Control records end a transaction. Without them the end of a log that holds
		// only these would never be reached.
		kgo.KeepControlRecords(),
	}
	if g.broker.opt.Instance != "" {
		opts = append(opts, kgo.InstanceID(g.broker.opt.Instance))
	}
	if pattern, ok := tenantPattern(g.id.topic); ok {
		opts = append(opts, kgo.ConsumeTopics(pattern), kgo.ConsumeRegex(), kgo.MetadataMaxAge(newTopics))
	}
	return opts
}

// consume joins the group and polls until ctx is done. It returns an error if it has to
// start over.
func (g *group) consume(ctx context.Context) error {
	client, err := g.broker.keeper.Await(ctx)
	if err != nil {
		return err
	}
	if !strings.Contains(g.id.topic, anyTenant) {
		if _, err := g.broker.ensure(ctx, client, g.id.topic); err != nil && !errors.Is(err, errMissing) {
			return fmt.Errorf("subscribe to %s: %w", g.id.topic, err)
		}
	}
	g.joined.Store(false)
	member, err := g.broker.dial(g.options()...)
	if err != nil {
		return err
	}
	polling, cancel := context.WithCancel(ctx)
	defer cancel()
	var committing sync.WaitGroup
	committing.Go(func() { g.commitOften(polling, member) })
	err = g.poll(polling, member)
	cancel()
	committing.Wait()
	leaving, cancel := context.WithTimeout(context.Background(), drainTimeout+2*commitTimeout)
	defer cancel()
	member.AllowRebalance()
	_ = member.LeaveGroupContext(leaving) // it calls [group.revoked]; if it fails, the session times out
	member.CloseAllowingRebalance()
	return err
}

// poll polls messages while there is capacity, until ctx is done. It returns an error if
// the topic was deleted and made again, since the client library goes on with the deleted
// one.
func (g *group) poll(ctx context.Context, member *kgo.Client) error {
	var errs errorFilter
	for g.awaitCapacity(ctx) {
		polling, cancel := context.WithTimeout(ctx, pollTimeout)
		fetches := member.PollRecords(polling, pollAtOnce)
		cancel()
		g.receive(fetches)
		member.AllowRebalance()
		err := skipTooLarge(member, fetches)
		if errors.Is(err, kerr.UnknownTopicID) {
			return err
		}
		g.polled(err)
		if err != nil && errs.isNew(ctx, err) {
			g.broker.log.WarnContext(ctx, "subscription has errors, will retry", "group", g.id.name(), "error", err)
			g.broker.keeper.Recheck()
		}
		if err != nil && fetches.Empty() { // the library asks again at once after some errors
			pause.For(ctx, pollPause)
		}
	}
	return nil
}

// fails notes why the group gets no messages. It reports whether that is news.
func (g *group) fails(why error) (news bool) {
	return g.broker.failures.Set(g, fmt.Errorf("subscription of group %s: %w", g.id.name(), why))
}

// polled notes whether the group gets messages. It gets none while it can't join, or may not read
// its topic. Other errors are of some partitions, or of some topics of a pattern.
func (g *group) polled(err error) {
	_, outside := errors.AsType[*kgo.ErrGroupSession](err)
	if outside {
		g.joined.Store(false)
	}
	switch {
	case outside, errors.Is(err, kerr.TopicAuthorizationFailed) && !strings.Contains(g.id.topic, anyTenant):
		g.fails(err)
	case err == nil && g.joined.Load():
		g.broker.failures.Set(g, nil)
	}
}

// skipTooLarge returns all errors of a poll. The library recovers from them by itself,
// except from a batch that is too large when it is decompressed. skipTooLarge skips such
// a batch, since it would fail for ever.
func skipTooLarge(member *kgo.Client, fetches kgo.Fetches) (all error) {
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
		all = errors.Join(all, err)
	})
	return all
}

// assigned begins to consume partitions.
func (g *group) assigned(_ context.Context, _ *kgo.Client, got map[string][]int32) {
	g.joined.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	for topic, numbers := range got {
		for _, n := range numbers {
			id := partition{topic, n}
			g.parts[id] = newAssignment(g, id)
		}
	}
}

// revoked releases partitions, for a rebalance or since we leave the group. Before,
// messages in flight get a few seconds to be settled, and are committed.
func (g *group) revoked(ctx context.Context, member *kgo.Client, revoked map[string][]int32) {
	g.mu.Lock()
	parts := g.partsOf(revoked)
	for _, p := range parts {
		p.leaving = true
	}
	g.mu.Unlock()
	if len(parts) == 0 {
		return
	}
	g.drain(ctx, parts)
	g.committing.Lock()
	defer g.committing.Unlock()
	if err := g.commit(ctx, member); err != nil {
		g.broker.log.WarnContext(ctx, "last commit of partitions failed, messages will come again", "group", g.id.name(), "error", err)
	}
	g.lose(revoked)
}

// lost forgets partitions that other members have already.
func (g *group) lost(ctx context.Context, _ *kgo.Client, lost map[string][]int32) {
	if len(lost) > 0 {
		g.broker.log.WarnContext(ctx, "partitions lost, messages will come again", "group", g.id.name())
	}
	g.lose(lost)
}

// lose forgets partitions.
func (g *group) lose(lost map[string][]int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.partsOf(lost) {
		p.gone = true
		delete(g.parts, p.partition)
	}
}

// partsOf returns our assignments of partitions. The caller holds the lock.
func (g *group) partsOf(numbers map[string][]int32) (parts []*assignment) {
	for id, p := range g.parts {
		if slices.Contains(numbers[id.topic], id.number) {
			parts = append(parts, p)
		}
	}
	return parts
}
