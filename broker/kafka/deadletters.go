package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// readTimeout is how long a reader waits for the next record of which there
// should be one.
const readTimeout = 5 * time.Second

// VisitDeadLetters visits the letters of a tenant, see [broker.DeadLetters]. A
// letter is removed by a tombstone, a record with its key and no value: it is
// not visited again, and Kafka frees its space when it compacts the topic.
func (b *Broker) VisitDeadLetters(
	ctx context.Context, tenant timer.TenantID, visit func(letter *message.Message) (remove bool, err error),
) error {
	if err := broker.ValidateVisit(tenant); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	client, err := b.current()
	if err != nil {
		return fmt.Errorf("visit dead letters: %w", err)
	}
	topics, err := b.letterTopics(ctx, client, tenant)
	if err != nil {
		return fmt.Errorf("visit dead letters: %w", err)
	}
	for _, topic := range topics {
		if err := b.visitTopic(ctx, client, topic, tenant, visit); err != nil {
			return fmt.Errorf("visit %s: %w", topic, err)
		}
	}
	return nil
}

// letterTopics returns the topics of a tenant's letters that are there, or of
// all tenants.
func (b *Broker) letterTopics(ctx context.Context, client *kgo.Client, tenant timer.TenantID) (topics []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var wanted []string // all
	if tenant != "" || !strings.Contains(b.opt.Routing.DeadLetters, tenantToken) {
		wanted = []string{b.opt.Routing.DeadLettersOf(tenant)}
		if err := checkTopic(wanted[0]); err != nil {
			return nil, err
		}
	}
	details, err := kadm.NewClient(client).ListTopics(ctx, wanted...)
	if err != nil {
		return nil, err
	}
	for topic, d := range details {
		switch {
		case !matches(b.opt.Routing.DeadLetters, topic) || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		case d.Err != nil:
			return nil, fmt.Errorf("look for topic %s: %w", topic, d.Err)
		default:
			topics = append(topics, topic)
		}
	}
	slices.Sort(topics)
	return topics, nil
}

// visitTopic visits the letters of one topic. It reads the topic twice: letters
// are long, and what removes them comes after them.
func (b *Broker) visitTopic(
	ctx context.Context, client *kgo.Client, topic string, tenant timer.TenantID,
	visit func(letter *message.Message) (remove bool, err error),
) error {
	remover, err := b.dial(append(b.producing(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return err
	}
	defer remover.Close()
	last := make(map[letterID]int64) // offset of the last record of each letter, -1 if that is a tombstone
	err = b.read(ctx, client, topic, func(r *kgo.Record) error {
		last[idOf(r)] = r.Offset
		if r.Value == nil {
			last[idOf(r)] = -1
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.read(ctx, client, topic, func(r *kgo.Record) error {
		if offset, there := last[idOf(r)]; !there || offset != r.Offset {
			return nil
		}
		letter := unmarshal(r)
		if whose, _ := b.opt.Routing.DeadLetterOf(topic, letter); tenant != "" && whose != tenant {
			return nil
		}
		remove, err := visit(letter)
		if err != nil || !remove {
			return err
		}
		return b.remove(ctx, remover, r)
	})
}

// A letterID is what the records of a letter have in common: the letter itself,
// those of its key before it, and the tombstone that removes it.
type letterID struct {
	partition int32
	key       string
}

// idOf returns whose record it is. A letter of others may have no key, where the
// topic is not compacted: the key of its tombstone then says where it stands.
func idOf(r *kgo.Record) letterID {
	if len(r.Key) == 0 {
		return letterID{r.Partition, "letter without a key at " + position(r)}
	}
	return letterID{r.Partition, string(r.Key)}
}

// remove publishes a tombstone, into the partition of the letter.
func (b *Broker) remove(ctx context.Context, remover *kgo.Client, letter *kgo.Record) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	tombstone := &kgo.Record{Topic: letter.Topic, Partition: letter.Partition, Key: []byte(idOf(letter).key)}
	if err := (publisher{b}).send(ctx, remover, []*kgo.Record{tombstone}); err != nil {
		return fmt.Errorf("remove the letter at %s: %w", position(letter), err)
	}
	return nil
}

// read calls handle with every record of a topic that is there now, partition by
// partition; those of the service have one.
func (b *Broker) read(ctx context.Context, client *kgo.Client, topic string, handle func(*kgo.Record) error) error {
	ends, err := endOffsets(ctx, client, topic)
	if err != nil {
		return err
	}
	starts, err := offsets(ctx, topic, kadm.NewClient(client).ListStartOffsets)
	if err != nil {
		return err
	}
	numbers := slices.SortedFunc(maps.Keys(ends), cmp.Compare[int32])
	for _, number := range numbers {
		if starts[number] >= ends[number] {
			continue
		}
		if err := b.readPartition(ctx, client, topic, number, starts[number], ends[number], handle); err != nil {
			return err
		}
	}
	return nil
}

// readPartition calls handle with the records of a partition between two
// offsets.
func (b *Broker) readPartition(
	ctx context.Context, client *kgo.Client, topic string, number int32, from, to int64, handle func(*kgo.Record) error,
) error {
	reader, err := b.dial(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {number: kgo.NewOffset().At(from)}}),
		kgo.KeepControlRecords(), // so that the end is met, whatever stands there
		kgo.MaxDecompressBatchBytes(maxBatch),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer reader.Close()
	for next := from; next < to; {
		records, err := poll(ctx, reader)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("read partition %d from offset %d: %w", number, next, err)
		}
		if len(records) == 0 {
			return ping(ctx, client) // the last records may have been compacted away
		}
		for _, r := range records {
			if next = r.Offset + 1; next > to {
				return nil
			}
			if r.Attrs.IsControl() {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := handle(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// poll returns the next records. If there are none for a while it returns none,
// and what went wrong meanwhile, if anything did.
func poll(ctx context.Context, reader *kgo.Client) (_ []*kgo.Record, trouble error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for ctx.Err() == nil {
		fetches := reader.PollFetches(ctx)
		if records := fetches.Records(); len(records) > 0 {
			return records, nil
		}
		fetches.EachError(func(_ string, _ int32, err error) {
			if ctx.Err() == nil {
				trouble = err
			}
		})
	}
	return nil, trouble
}

// waitAgain waits before something is tried again that failed n times. It
// returns false if ctx is done.
func waitAgain(ctx context.Context, n int) bool { return pause.For(ctx, backoff(n)) }
