package kafka

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// removeTimeout is the longest wait until a dead letter is removed.
const removeTimeout = 20 * time.Second

// VisitDeadLetters visits the dead letters of a tenant, see [broker.DeadLetters]. It
// removes one with a tombstone, a record with its key and no value. Then the dead letter
// is not visited again, and Kafka frees its space when it compacts the topic. A visit begins
// with the first one: which dead letters were removed is known at the end only.
func (b *Broker) VisitDeadLetters(ctx context.Context, tenant timer.TenantID, _ string, visit broker.DeadLetterVisit) error {
	err := b.visit(ctx, tenant, visit)
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return fmt.Errorf("visit dead letters: %w", classify(err))
	}
	return nil
}

// visit reads the topics twice. The tombstones come after the dead letters that they
// remove, and dead letters are too long to keep in memory.
func (b *Broker) visit(ctx context.Context, tenant timer.TenantID, visit broker.DeadLetterVisit) error {
	extents, err := b.extents(ctx, b.opt.Routing.DeadLettersOf(cmp.Or(tenant, anyTenant)))
	if err != nil {
		return err
	}
	remover, err := b.dial(append(b.producing(), kgo.RecordDeliveryTimeout(removeTimeout), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return err
	}
	defer remover.Close()
	last := make(map[recordID]int64) // offset of each dead letter's last record; -1 for a tombstone
	if err := b.read(ctx, broker.DeadLetter, extents, func(batch []storedRecord) error {
		for _, r := range batch {
			if last[idOf(r.Record)] = r.Offset; r.removal(broker.DeadLetter) {
				last[idOf(r.Record)] = -1
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return b.read(ctx, broker.DeadLetter, extents, func(batch []storedRecord) error {
		records := make(map[*message.Message]*kgo.Record)
		letters := make([]*message.Message, 0, len(batch))
		for _, r := range batch {
			if offset, there := last[idOf(r.Record)]; there && offset == r.Offset {
				letters = append(letters, unmarshal(r.Record))
				records[letters[len(letters)-1]] = r.Record
			}
		}
		if len(letters) == 0 {
			return nil
		}
		removed, err := visit(letters)
		tombstones := make([]*kgo.Record, len(removed))
		for i, m := range removed {
			r := records[m]
			tombstones[i] = &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: []byte(idOf(r).key)}
		}
		return cmp.Or(remover.ProduceSync(ctx, tombstones...).FirstErr(), err, ctx.Err())
	})
}

// A recordID is the same for all records of a dead letter: the dead letter, earlier
// records with its key, and the tombstone that removes it.
type recordID struct {
	partition

	key string
}

// idOf returns the dead letter that a record belongs to. In a topic that is not
// compacted, a dead letter of another program may have no key. Then its position is the
// key of its tombstone.
func idOf(r *kgo.Record) recordID {
	id := partition{r.Topic, r.Partition}
	if len(r.Key) == 0 {
		return recordID{id, "letter without a key at " + position(r)}
	}
	return recordID{id, string(r.Key)}
}
