package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// errMissing says that a topic does not exist, and that the driver may not make it.
var errMissing = errors.New("missing")

// maxTopic is the length of the longest name of a topic.
const maxTopic = 249

// kindOf returns the kind of a topic. A topic that the routing does not name is treated
// like one for events, which keeps everything for a time.
func kindOf(r broker.Routing, topic string) broker.Kind {
	for _, k := range []broker.Kind{broker.Commands, broker.DeadLetter} {
		if matches(r.TopicOf(k, anyTenant), topic) {
			return k
		}
	}
	return broker.Events
}

// checkTopic returns a [broker.ErrRefused] unless Kafka accepts the name. It refuses
// empty parts between dots, too, since they come from empty tenants.
func checkTopic(topic string) error {
	bad := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r))
	}
	if err := broker.CheckName("topic", topic, maxTopic); err != nil {
		return err
	}
	if strings.ContainsFunc(topic, bad) || slices.Contains(strings.Split(topic, "."), "") {
		return fmt.Errorf("%w: topic %s holds more than letters, digits, '_', '-' and single dots between them", broker.ErrRefused, timer.Quote(topic))
	}
	return nil
}

// A plan says how the service makes a topic.
type plan struct {
	topic      string
	partitions int32
	settings   map[string]*string
}

// planFor returns the plan for a topic.
func (b *Broker) planFor(topic string) plan {
	if kindOf(b.opt.Routing, topic) == broker.DeadLetter {
		// Dead letters stay until a tombstone with their key removes them.
		return plan{topic, 1, map[string]*string{settingCleanup: new("compact")}}
	}
	return plan{topic, b.opt.Partitions, map[string]*string{
		settingCleanup:        new("delete"),
		settingRetentionTime:  new(strconv.FormatInt(b.opt.MaxAge.Milliseconds(), 10)),
		settingRetentionBytes: new("-1"),
		settingTimestamp:      new("LogAppendTime"),
	}}
}

// change describes the topic that the plan makes.
func (p plan) change() broker.Change {
	detail := fmt.Sprintf("partitions=%d, replication factor of the cluster", p.partitions)
	for _, name := range slices.Sorted(maps.Keys(p.settings)) {
		detail += ", " + name + "=" + *p.settings[name]
	}
	return broker.Change{Object: "topic " + p.topic, Detail: detail}
}

// fixed returns the topics that exist before the first message, since their names do not
// hold the tenant.
func (b *Broker) fixed() (topics []string) {
	r := b.opt.Routing
	for _, t := range []string{r.CommandsOf(anyTenant), r.EventsOf(anyTenant), r.DeadLettersOf(anyTenant), r.ReceiptsOf(anyTenant)} {
		if t != "" && !strings.Contains(t, anyTenant) && !slices.Contains(topics, t) {
			topics = append(topics, t)
		}
	}
	return topics
}

// Provision makes the topics whose names do not hold the tenant. If dry, it only returns
// these topics. The other topics are made with their first message.
func (b *Broker) Provision(ctx context.Context, dry bool) (changes []broker.Change, err error) {
	err = b.connected(ctx, func(ctx context.Context, client *kgo.Client) (err error) {
		changes, err = b.provision(ctx, client, dry)
		return err
	})
	return changes, err
}

func (b *Broker) provision(ctx context.Context, client *kgo.Client, dry bool) (changes []broker.Change, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var unfit error
	for _, topic := range b.fixed() {
		switch _, err := b.find(ctx, client, topic); {
		case errors.Is(err, errUnfit):
			unfit = errors.Join(unfit, err)
		case errors.Is(err, errMissing):
			plan := b.planFor(topic)
			if !dry || !b.opt.Verify {
				if _, err := plan.create(ctx, client, dry); err != nil {
					return changes, err
				}
			}
			changes = append(changes, plan.change())
		case err != nil:
			return changes, err
		}
	}
	// This comes last: if the login is refused, the library repeats this request for long.
	old, err := tooOld(ctx, client)
	return changes, cmp.Or(err, errors.Join(unfit, old))
}

// prepare makes the required topics, or says which are missing.
func (b *Broker) prepare(ctx context.Context, client *kgo.Client) error {
	if b.opt.Client {
		return answers(ctx, client)
	}
	changes, err := b.provision(ctx, client, b.opt.Verify)
	var names []string
	for _, c := range changes {
		if names = append(names, c.Object); !b.opt.Verify {
			b.log.InfoContext(ctx, "made a topic or a setting that was missing", "object", c.Object, "settings", c.Detail)
		}
	}
	switch {
	case err != nil:
		return err
	case b.opt.Verify && len(names) > 0:
		return fmt.Errorf("%w: %s does not exist; make it with timer-service provision", errMissing, strings.Join(names, ", "))
	}
	b.warned.Do(func() { b.warn(ctx, client) })
	b.disk.Store(b.fullestDisk(ctx, client))
	return nil
}

// find returns the existing topics that a filter matches, which have to be fit. The error
// is an errMissing if the filter names one topic that does not exist.
func (b *Broker) find(ctx context.Context, client *kgo.Client, filter string) (kadm.TopicDetails, error) {
	admin := kadm.NewClient(client)
	found, err := topicsLike(ctx, admin, filter)
	switch {
	case err != nil:
		return nil, err
	case !found.Has(filter) && !strings.Contains(filter, anyTenant):
		return nil, fmt.Errorf("%w: topic %s does not exist", errMissing, filter)
	case b.opt.Client:
		return found, nil
	}
	return found, b.inspect(ctx, admin, found)
}

// topicsLike returns the existing topics that a filter matches. The client remembers for a
// while that a topic was missing, unless it is to ask for permissions, too. Without them,
// the request fails at once if the login is refused.
func topicsLike(ctx context.Context, admin *kadm.Client, filter string) (kadm.TopicDetails, error) {
	var wanted []string // empty: all topics
	if !strings.Contains(filter, anyTenant) {
		wanted = []string{filter}
	}
	found, err := admin.ListTopics(ctx, wanted...)
	if err != nil {
		return nil, fmt.Errorf("find topic %s: %w", filter, err)
	}
	for topic, d := range found {
		switch {
		case !matches(filter, topic) || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			delete(found, topic)
		case d.Err != nil:
			return nil, classify(fmt.Errorf("find topic %s: %w", topic, d.Err))
		}
	}
	return found, nil
}

// warn logs which topics of tenants are unfit. Publishing to them fails by itself, see
// [Broker.ensure].
func (b *Broker) warn(ctx context.Context, client *kgo.Client) {
	for _, k := range []broker.Kind{broker.Commands, broker.Events} {
		filter := b.opt.Routing.TopicOf(k, anyTenant)
		if !strings.Contains(filter, anyTenant) {
			continue
		}
		if _, err := b.find(ctx, client, filter); err != nil {
			b.log.WarnContext(ctx, "topics of tenants may lose messages, or can't be verified", "topics", filter, "error", err)
		}
	}
}

// inspect returns an error if the settings of existing topics could lose messages.
func (b *Broker) inspect(ctx context.Context, admin *kadm.Client, details kadm.TopicDetails) error {
	if len(details) == 0 {
		return nil
	}
	configs, err := admin.DescribeTopicConfigs(ctx, details.Names()...)
	if err != nil {
		return fmt.Errorf("read the settings of the topics: %w", err)
	}
	var unfit []error
	for _, config := range configs {
		if config.Err != nil {
			return fmt.Errorf("read the settings of topic %s: %w", config.Name, config.Err)
		}
		settings := make(map[string]string)
		for _, c := range config.Configs {
			settings[c.Key] = c.MaybeValue()
		}
		replicas := details[config.Name].Partitions.NumReplicas()
		if err := verify(kindOf(b.opt.Routing, config.Name), replicas, settings); err != nil {
			unfit = append(unfit, fmt.Errorf("topic %s: %w", config.Name, err))
		}
	}
	if len(unfit) > 0 {
		return fmt.Errorf("%w: %w", errUnfit, errors.Join(unfit...))
	}
	return nil
}

// create makes the topic, unless it exists. If dry, it only returns why the server would
// refuse to make it.
func (p plan) create(ctx context.Context, client *kgo.Client, dry bool) (kadm.TopicID, error) {
	admin := kadm.NewClient(client)
	create := admin.CreateTopics
	if dry {
		create = admin.ValidateCreateTopics
	}
	made, err := create(ctx, p.partitions, -1, p.settings, p.topic)
	if err = cmp.Or(err, made.Error()); err != nil {
		err = fmt.Errorf("create topic %s: %w", p.topic, err)
	}
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists): // another call or process made it just now
	case err != nil || dry:
		return kadm.TopicID{}, classify(err)
	}
	return awaitTopic(ctx, admin, p.topic)
}

// awaitTopic waits until a topic that was made just now has leaders, and returns its id. The
// controller answers before the brokers know the topic, and until then they refuse messages
// and offsets.
func awaitTopic(ctx context.Context, admin *kadm.Client, topic string) (id kadm.TopicID, err error) {
	err = pause.Until(ctx, func() (bool, error) {
		found, err := topicsLike(kadm.WithAuthorizedOps(ctx), admin, topic)
		id = found[topic].ID
		led := found.Has(topic)
		for _, p := range found[topic].Partitions {
			led = led && p.Err == nil && p.Leader >= 0
		}
		return led, err
	})
	return id, err
}

// A topicState is the state of a topic as far as this process knows it.
type topicState struct {
	id     kadm.TopicID // id at the last lookup; zero before the first
	fresh  bool         // the topic need not be looked up again
	failed time.Time    // when publishing to it failed last
}

// ensure makes sure that a topic exists. It makes the topic if it may.
func (b *Broker) ensure(ctx context.Context, client *kgo.Client, topic string) (topicState, error) {
	b.mu.Lock()
	state := b.topics[topic]
	b.mu.Unlock()
	if state.fresh {
		return state, nil
	}
	if err := checkTopic(topic); err != nil {
		return state, err
	}
	found, err := b.find(ctx, client, topic)
	id := found[topic].ID
	switch {
	case errors.Is(err, errMissing) && !b.opt.Client && !b.opt.Verify:
		if id, err = b.planFor(topic).create(ctx, client, false); err != nil {
			return state, err
		}
	case errors.Is(err, errUnfit) && kindOf(b.opt.Routing, topic) == broker.DeadLetter: // better than none
		b.log.WarnContext(ctx, "dead letters may get lost", "topic", topic, "error", err)
	case err != nil:
		return state, err
	}
	if state.id != (kadm.TopicID{}) && state.id != id {
		// The topic was made again, and the client library goes on with the deleted one.
		client.PurgeTopicsFromProducing(topic)
	}
	state.id, state.fresh = id, true
	b.mu.Lock()
	defer b.mu.Unlock()
	b.topics[topic] = state
	return state, nil
}
