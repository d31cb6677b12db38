package kafka

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A message that waits for its retry is held in memory for up to maxHold. If it has to
// wait for longer it is published again, to the end of its topic, with headers that name
// the time of its next delivery and its count of deliveries. Then its old record is
// handled, so that no message keeps the committed offset back.
const (
	headerRetryAt    = "timer-service-retry-at"   // earliest time of delivery, Unix ms
	headerDeliveries = "timer-service-deliveries" // how often it was delivered
)

// Any producer can set these headers, so their values are limited to what our own
// handlers can ask for.
const (
	maxHold       = 30 * time.Second // longest time that a record is held
	maxRetry      = time.Hour        // longest delay; see [broker.RetryDelay]
	maxDeliveries = 1_000_000
	retryTimeout  = 10 * time.Second // longest wait until a message is published again
	retryPause    = 5 * time.Second  // until a failed publish is tried again
)

// retryOf reads the headers of a retry: how often the message was delivered, and when its
// next delivery is due.
func retryOf(r *kgo.Record, now time.Time) (deliveries int, notBefore time.Time) {
	number := func(name string, most int64) int64 {
		n, _ := strconv.ParseInt(header(r, name), 10, 64)
		return min(max(n, 0), most)
	}
	at := number(headerRetryAt, now.Add(maxRetry).UnixMilli())
	return int(number(headerDeliveries, maxDeliveries)), time.UnixMilli(at)
}

// again returns the record that is published for a retry.
func (d *delivery) again() *kgo.Record {
	headers := slices.DeleteFunc(slices.Clone(d.record.Headers), func(h kgo.RecordHeader) bool {
		return h.Key == headerRetryAt || h.Key == headerDeliveries
	})
	return &kgo.Record{
		Topic: d.record.Topic, Key: d.record.Key, Value: d.record.Value,
		Headers: append(headers,
			kgo.RecordHeader{Key: headerRetryAt, Value: strconv.AppendInt(nil, d.notBefore.UnixMilli(), 10)},
			kgo.RecordHeader{Key: headerDeliveries, Value: strconv.AppendInt(nil, int64(d.count), 10)}),
	}
}

// Retry schedules the next delivery of the record after a delay.
func (d *delivery) Retry(delay time.Duration) bool {
	g, now := d.part.group, clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	d.count++
	d.notBefore = now.Add(delay)
	g.schedule(d, now)
	return true
}

// schedule queues a delivery that is due, and holds any other. When a delivery was held
// for maxHold, schedule publishes it again instead.
func (g *group) schedule(d *delivery, now time.Time) {
	hold := min(d.notBefore.Sub(now), d.release.Sub(now))
	switch {
	case d.stale():
	case !now.Before(d.notBefore):
		g.enqueue(d)
	case hold <= 0:
		d.become(publishing)
		go d.republish() // in a goroutine, since it takes the lock
	default:
		d.become(held)
		time.AfterFunc(hold, d.wake)
	}
}

// wake schedules a delivery that was held.
func (d *delivery) wake() {
	g, now := d.part.group, clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if d.state == held {
		g.schedule(d, now)
	}
}

// republish publishes a message again. Then its record is handled. If that fails the
// message is held for another retryPause.
func (d *delivery) republish() {
	client, err := d.part.group.broker.keeper.Current()
	if err != nil {
		d.republished(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), retryTimeout)
	client.TryProduce(ctx, d.again(), func(_ *kgo.Record, err error) {
		cancel()
		d.republished(err)
	})
}

func (d *delivery) republished(err error) {
	g, now := d.part.group, clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		d.settle()
		return
	}
	if ctx := context.Background(); g.retries.isNew(ctx, err) {
		g.broker.log.WarnContext(ctx, "publishing a message again for its retry failed, it waits in memory",
			"topic", d.record.Topic, "partition", d.record.Partition, "error", err)
	}
	d.release = now.Add(retryPause)
	g.schedule(d, now)
}
