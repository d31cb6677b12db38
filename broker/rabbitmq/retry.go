package rabbitmq

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// The retries of a subscription are the messages that its handlers nacked, and
// that wait for their delay in retry queues:
//
//	nack ─► publish to queue.retry.30s, confirmed ─► ack of the original
//	                     │
//	                     ▼ the head of the queue
//	        hold until its delay is over ─► Window ─► handler ─► ack, or nack again
//
// Thousands of messages wait at the server, durably, and take neither memory nor
// an in-flight slot here. A queue is for delays up to the one in its name, so that
// its messages are due in about their order. Up to 256 messages of each queue are held
// here at once, whatever their order. If more messages wait in a queue, one of them may have
// to wait for one that is due later. A message with a delay longer than that of the last queue enters that
// queue several times: the server ends a channel that holds a message for 30 minutes.
//
// The server's own ways to delay are no alternative: a classic queue loses
// messages that expire while it dead-letters them to another node
// (https://www.rabbitmq.com/docs/dlx#safety), and the plugin for delayed messages
// is archived.
type retries struct {
	*subscription
	publishing context.Context // for publishing to retry queues; ends soon after the term
	stop       func()          // ends publishing
	state      atomic.Int32
	why        string // the reason that was logged last
}

// States of the retry queues of a subscription.
const (
	queuesPending int32 = iota // an attempt to open them is under way
	queuesUsable               // they exist and are consumed
	queuesRefused              // they can't be used now
)

func newRetries(s *subscription) *retries {
	publishing, stop := pause.Outlive(s.broker.term.Context(), 0, lastRetries)
	return &retries{subscription: s, publishing: publishing, stop: stop}
}

// usable reports whether the queues can be used for a message with a delay. While that is
// not known it waits, at most as long as the message has to wait anyway. A message that
// waits in memory does so to the end of its delay, and thousands of them stop all others.
func (r *retries) usable(delay time.Duration) bool {
	ctx, cancel := context.WithTimeout(r.publishing, max(apiTimeout, delay))
	defer cancel()
	_ = pause.Until(ctx, func() (bool, error) { return r.state.Load() != queuesPending, nil })
	return r.state.Load() == queuesUsable
}

// retryDelays are the longest delays of the retry queues. Each usual delay
// ([broker.RedeliveryDelay]: about 1, 5 and 25 s) has a queue of its own.
var retryDelays = []struct {
	name    string
	longest time.Duration
}{{"2s", 2 * time.Second}, {"6s", 6 * time.Second}, {"30s", 30 * time.Second}, {"2m", 2 * time.Minute}, {"10m", 10 * time.Minute}}

const (
	retryPrefetch  = 256              // messages of each retry queue that are held here
	retryPause     = time.Second      // until a failed move of a message is tried again
	retryTimeout   = 15 * time.Second // longest publish to a retry queue
	retrySetup     = 5 * time.Minute  // until unusable retry queues are tried again
	maxRetryBody   = 256 << 10        // bytes; a larger message is held in memory
	maxRetryPrefix = 240              // bytes of a name; names have at most 255
	maxRetryWait   = time.Hour        // limit of broker.RetryDelay; larger values are ignored
)

// Headers of a message in a retry queue, all of them int64.
const (
	headerDeliveries = "x-timer-deliveries" // how often the message was delivered
	headerRetryAt    = "x-timer-retry-at"   // Unix ms when the message is to be delivered
	headerHoldUntil  = "x-timer-hold-until" // Unix ms when it leaves this queue; at most retry-at
)

// retryQueues returns the retry queues of a queue, in the order of retryDelays.
func retryQueues(of queue) (all []queue) {
	for _, d := range retryDelays {
		name := shorten(of.name, maxRetryPrefix) + ".retry." + d.name
		all = append(all, queue{name: name, key: name, args: of.args})
	}
	return all
}

// run consumes the retry queues until ctx is done. It returns the last consumer, or nil
// if there is none.
func (r *retries) run(ctx context.Context) (last *consumer) {
	if !r.broker.opt.Client {
		last = r.broker.consume(ctx, r)
	}
	if last == nil {
		r.state.Store(queuesRefused)
	}
	return last
}

// open begins to consume the queues on the connection that declares.
func (r *retries) open(ctx context.Context, conn *serverConn) (*consumer, error) {
	c := &consumer{broker: r.broker, conn: conn}
	queues := retryQueues(r.queue)
	err := r.broker.ensureQueues(ctx, queues...)
	if err == nil {
		err = c.open(ctx, retryPrefetch, queues...)
	}
	switch {
	case err == nil:
		_, _ = r.broker.openConfirmChannel(ctx) // at the end of Run it would be too late
	case code(err) != 0 && !conn.IsClosed(): // the server has refused them
		r.state.Store(queuesRefused)
	}
	return c, err
}

// failed logs why the queues can't be used, unless it is the same reason as before.
func (r *retries) failed(ctx context.Context, err error) (wait time.Duration) {
	if _, away := r.broker.main.Current(); away == nil && err.Error() != r.why {
		r.why = err.Error()
		r.broker.log.WarnContext(ctx, "retry queues can't be used, nacked messages wait in memory; will retry", "queue", r.queue.name, "error", err)
	}
	if errors.Is(err, errUnfit) || code(err) == amqp.AccessRefused || code(err) == amqp.NotFound && r.broker.opt.Verify {
		return retrySetup // each attempt leaves an error in the server's log
	}
	return 0
}

// deliver delivers messages of the retry queues until ctx is done, or until the server
// ends the consumer. After ctx is done messages are still published to them.
func (r *retries) deliver(ctx context.Context, c *consumer) error {
	holding, cancel := context.WithCancel(ctx)
	defer cancel()
	r.state.Store(queuesUsable)
	var held sync.WaitGroup
	for i := range c.in {
		held.Go(func() {
			defer cancel() // if one of its queues fails, a new consumer is made
			for {
				select {
				case <-holding.Done():
					return
				case in, ok := <-c.in[i]:
					if !ok {
						return
					}
					d := &delivery{consumer: c, retries: r, in: in, deliveries: earlierDeliveries(&in) + 1}
					held.Go(func() { r.hold(holding, d, retryDelays[i].longest) })
				}
			}
		})
	}
	<-holding.Done()
	if ctx.Err() == nil {
		r.state.Store(queuesPending)
	}
	held.Wait()
	return c.why()
}

// hold holds a message of a retry queue until its delay is over, and delivers it.
func (r *retries) hold(ctx context.Context, d *delivery, longest time.Duration) {
	for wait := min(until(number(&d.in, headerHoldUntil)), longest); ; wait = retryPause {
		if !pause.For(ctx, wait) {
			if !d.Stale() {
				d.Return()
			}
			return
		}
		left := until(number(&d.in, headerRetryAt))
		if left <= 0 || left > maxRetryWait {
			r.window.Add(d, d.deliveries)
			return
		}
		if r.put(d, left, d.deliveries-1) {
			return
		}
	}
}

// put publishes a message to the retry queue for a delay, and acks it when that is
// confirmed. If it returns false, the message was not published and is still in flight.
func (r *retries) put(d *delivery, delay time.Duration, deliveries int) bool {
	begun := now() + 1 // rounded up, so that no message comes before its time
	if !r.usable(delay) || len(d.in.Body) > maxRetryBody {
		return false
	}
	n := 0
	for n < len(retryDelays)-1 && delay > retryDelays[n].longest {
		n++
	}
	m := outgoing{topic: retryQueues(r.queue)[n].name, Publishing: republishing(&d.in), properties: propertyBytes(&d.in)}
	m.Headers[headerDeliveries] = int64(deliveries)
	m.Headers[headerRetryAt] = begun + delay.Milliseconds()
	m.Headers[headerHoldUntil] = begun + min(delay, retryDelays[n].longest).Milliseconds()
	ctx, cancel := context.WithTimeout(r.publishing, retryTimeout)
	defer cancel()
	results := make([]error, 1)
	r.broker.send(ctx, []outgoing{m}, results)
	// If the exchange was deleted, the bindings of the queues were deleted with it.
	if _, unbound := errors.AsType[*returnedError](results[0]); unbound {
		_ = await(ctx, r.broker.begin("retry queues of "+r.queue.name, func() error {
			return r.broker.ensureQueues(ctx, retryQueues(r.queue)...)
		})) // if it fails the next message that is returned tries again
	}
	if results[0] != nil {
		return false
	}
	d.Ack()
	return true
}

// republishing returns a message as it was delivered, without properties that are
// commands to the server: copies to other queues, an expiry, the user of the producer.
func republishing(in *amqp.Delivery) amqp.Publishing {
	headers := make(amqp.Table, len(in.Headers)+3)
	for name, value := range in.Headers {
		if !strings.EqualFold(name, "CC") && !strings.EqualFold(name, "BCC") && name != "x-delivery-count" {
			headers[name] = value
		}
	}
	return amqp.Publishing{
		Headers: headers, Body: in.Body, DeliveryMode: amqp.Persistent,
		ContentType: in.ContentType, ContentEncoding: in.ContentEncoding, CorrelationId: in.CorrelationId, ReplyTo: in.ReplyTo,
		MessageId: in.MessageId, Timestamp: in.Timestamp, Type: in.Type, AppId: in.AppId, Priority: in.Priority,
	}
}

// propertyBytes returns an upper estimate of the bytes that the properties of a message
// take when it is published to a retry queue.
func propertyBytes(in *amqp.Delivery) int {
	n := weight(in.Headers) + 3*headerBytes // plus the headers of the retry
	for _, short := range []string{in.ContentType, in.ContentEncoding, in.CorrelationId, in.ReplyTo, in.MessageId, in.Type, in.AppId} {
		n += 1 + len(short)
	}
	return n + headerBytes // plus the properties of fixed length
}

// earlierDeliveries returns how often a message of a retry queue was delivered before.
func earlierDeliveries(in *amqp.Delivery) int {
	return int(min(max(number(in, headerDeliveries), 1), maxDeliveries))
}

// number returns the value of a header that is an int64, else 0.
func number(in *amqp.Delivery, name string) int64 {
	n, _ := in.Headers[name].(int64)
	return n
}

// now returns the time in Unix ms. It is the time of day, since a delay may outlive the
// process.
func now() int64 {
	return clock().UnixMilli()
}

// until returns the duration until a time in Unix ms, 0 if that has passed.
func until(ms int64) time.Duration {
	return time.Duration(max(min(ms-now(), 10*maxRetryWait.Milliseconds()), 0)) * time.Millisecond
}
