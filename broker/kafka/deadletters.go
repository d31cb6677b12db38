package kafka

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	readTimeout   = 5 * time.Second // longest wait for the next record, where there should be one
	removeTimeout = 20 * time.Second
)

// VisitDeadLetters visits the dead letters of a tenant, see [broker.DeadLetters].
// One is removed by a tombstone, a record with its key and no value: it is not
// visited again, and Kafka frees its space when it compacts the topic.
func (b *Broker) VisitDeadLetters(
	ctx context.Context, tenant timer.TenantID, visit func(deadLetter *message.Message) (remove bool, err error),
) error {
	if err := broker.ValidateVisit(tenant); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	client, err := b.keeper.Current()
	if err != nil {
		return fmt.Errorf("visit dead letters: %w", err)
	}
	topics, err := b.deadLetterTopics(ctx, client, tenant)
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

// deadLetterTopics returns the topics of a tenant's dead letters that are there,
// or of all tenants.
func (b *Broker) deadLetterTopics(ctx context.Context, client *kgo.Client, tenant timer.TenantID) (topics []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	template := b.opt.Routing.DeadLetters
	if tenant != "" {
		template = b.opt.Routing.DeadLettersOf(tenant)
	}
	if !strings.Contains(template, tenantToken) {
		if err := checkTopic(template); err != nil {
			return nil, err
		}
	}
	found, err := topicsLike(ctx, kadm.NewClient(client), template)
	return found.Names(), err
}

// visitTopic visits the dead letters of one topic. It reads the topic twice: they
// are long, and what removes them comes after them.
func (b *Broker) visitTopic(
	ctx context.Context, client *kgo.Client, topic string, tenant timer.TenantID,
	visit func(deadLetter *message.Message) (remove bool, err error),
) error {
	remover, err := b.dial(append(b.producing(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return err
	}
	defer remover.Close()
	last := make(map[recordID]int64) // offset of the last record of each dead letter, -1 if that is a tombstone
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
		deadLetter := unmarshal(r)
		if owner, _ := b.opt.Routing.DeadLetterOf(topic, deadLetter); tenant != "" && owner != tenant {
			return nil
		}
		remove, err := visit(deadLetter)
		if err != nil || !remove {
			return err
		}
		return b.remove(ctx, remover, r)
	})
}

// A recordID is what the records of a dead letter have in common: itself, those of
// its key before it, and the tombstone that removes it.
type recordID struct {
	partition int32
	key       string
}

// idOf returns which dead letter a record is of. One that another program
// published may have no key, where the topic is not compacted: the key of its
// tombstone then is its position.
func idOf(r *kgo.Record) recordID {
	if len(r.Key) == 0 {
		return recordID{r.Partition, "letter without a key at " + position(r)}
	}
	return recordID{r.Partition, string(r.Key)}
}

// remove publishes a tombstone, into the partition of the dead letter.
func (b *Broker) remove(ctx context.Context, remover *kgo.Client, r *kgo.Record) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	tombstone := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: []byte(idOf(r).key)}
	if err := remover.ProduceSync(ctx, tombstone).FirstErr(); err != nil {
		return fmt.Errorf("remove the dead letter at %s: %w", position(r), err)
	}
	return nil
}

// read calls handle with every record of a topic that is there now, in the order
// of its partition; topics of the service have one.
func (b *Broker) read(ctx context.Context, client *kgo.Client, topic string, handle func(*kgo.Record) error) error {
	ends, err := endOffsets(ctx, client, topic)
	if err != nil {
		return err
	}
	starts, err := offsets(ctx, topic, kadm.NewClient(client).ListStartOffsets)
	if err != nil {
		return err
	}
	unread := make(map[int32]kgo.Offset)
	for number, end := range ends {
		if starts[number] < end {
			unread[number] = kgo.NewOffset().At(starts[number])
		}
	}
	if len(unread) == 0 {
		return nil
	}
	reader, err := b.dial(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: maps.Clone(unread)}),
		kgo.KeepControlRecords(), // so that the end is met, whatever record is there
		kgo.MaxDecompressBatchBytes(maxBatch),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer reader.Close()
	for len(unread) > 0 {
		records, err := poll(ctx, reader)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("read to the end: %w", err)
		case len(records) == 0:
			return ping(ctx, client) // the last records may have been compacted away
		}
		for _, r := range records {
			if r.Offset+1 >= ends[r.Partition] {
				delete(unread, r.Partition)
			}
			if r.Offset >= ends[r.Partition] || r.Attrs.IsControl() {
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
// and the last error of that time.
func poll(ctx context.Context, reader *kgo.Client) (_ []*kgo.Record, last error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for ctx.Err() == nil {
		fetches := reader.PollFetches(ctx)
		if records := fetches.Records(); len(records) > 0 {
			return records, nil
		}
		fetches.EachError(func(_ string, _ int32, err error) {
			if ctx.Err() == nil {
				last = err
			}
		})
	}
	return nil, last
}
