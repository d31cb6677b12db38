package outbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/timer"
)

const (
	slowPublish = 100 * time.Millisecond // after which the next batch no longer waits for a batch
	maxTimeout  = 10 * time.Second       // of a publish; a row without a result by then is deferred
	minTimeout  = time.Second            // of a publish while some destination does not answer, see pipeline.adapt
)

// A pipeline has the rows that a loop has in flight, at most a batch and a page of rows that
// were read again. They are of one publish, or of several while some are slow because a
// destination does not answer.
type pipeline struct {
	*sender
	finish    func(outcome) // settles a batch
	away      atomic.Bool   // the broker was unavailable for a batch
	timeout   atomic.Int64  // of the next publish, as a duration
	rows      atomic.Int64  // in flight
	freed     chan struct{} // holds one: rows are no longer in flight
	publishes sync.WaitGroup
}

func newPipeline(s *sender, finish func(outcome)) *pipeline {
	p := &pipeline{sender: s, finish: finish, freed: make(chan struct{}, 1)}
	p.timeout.Store(int64(maxTimeout))
	return p
}

// vacancy waits until rows may be published, and returns how many. It returns zero if
// ctx ends.
func (p *pipeline) vacancy(ctx context.Context) int {
	for ctx.Err() == nil {
		if n := p.opt.Batch - int(p.rows.Load()); n > 0 {
			return n
		}
		select {
		case <-p.freed:
		case <-ctx.Done():
		}
	}
	return 0
}

// publish publishes rows and settles them. It returns the destinations that took a row. If
// the publish is slow it returns nil, and settles the rows later.
func (p *pipeline) publish(rows []Row) map[string]bool {
	rows = p.except(rows, damaged)
	if len(p.opt.Handlers) > 0 {
		rows = p.handOver(rows)
	}
	if len(rows) == 0 {
		return nil
	}
	p.rows.Add(int64(len(rows)))
	messages := make([]broker.Message, len(rows))
	for i, row := range rows {
		messages[i] = broker.Message{Topic: p.topic(row.Message), Message: row.Message}
	}
	results := make(chan []error, 1)
	p.publishes.Go(func() {
		ctx, cancel := context.WithTimeout(p.publishing, time.Duration(p.timeout.Load()))
		defer cancel()
		errs := p.pub.Publish(ctx, messages...)
		p.adapt(ctx.Err() != nil, errs)
		p.unanswered.note(p.clock.Now(), errors.Is(ctx.Err(), context.DeadlineExceeded), messages, errs)
		results <- errs
	})
	slow := time.NewTimer(slowPublish)
	defer slow.Stop()
	select {
	case errs := <-results:
		return p.done(rows, messages, errs)
	case <-slow.C:
		p.publishes.Go(func() { p.done(rows, messages, <-results) })
		return nil
	}
}

// except defers each row for which why returns a destination and a reason, and returns the
// other rows.
func (p *pipeline) except(rows []Row, why func(Row) (destination, reason string)) (others []Row) {
	now, others := p.clock.Now(), rows[:0]
	var o outcome
	for _, row := range rows {
		destination, reason := why(row)
		if reason == "" {
			others = append(others, row)
			continue
		}
		o.deferred = append(o.deferred, Deferral{Place: row.Place, Destination: destination, Reason: reason, RetryAt: now.Add(retry.Publish.After(row.Attempts + 1))})
	}
	if len(o.deferred) > 0 {
		p.report.add(p.log, now, o)
		p.finish(o)
	}
	return others
}

// damaged returns the reason of a row whose headers can't be read: a person has to repair or
// delete it.
func damaged(row Row) (destination, reason string) {
	if row.Err == nil {
		return "", ""
	}
	return "damaged", readable(row.Err)
}

// adapt halves the timeout of publishes when a part of a batch timed out, so that a
// destination that does not answer delays the others less. After batches that did not time
// out it raises the timeout step by step.
func (p *pipeline) adapt(timedOut bool, errs []error) {
	d := time.Duration(p.timeout.Load())
	switch {
	case !timedOut:
		d = min(d+d/16, maxTimeout)
	case slices.Contains(errs, nil):
		d = max(d/2, minTimeout)
	}
	p.timeout.Store(int64(d))
}

// done sorts rows by their results and settles them.
func (p *pipeline) done(rows []Row, messages []broker.Message, errs []error) (through map[string]bool) {
	defer func() {
		p.rows.Add(-int64(len(rows)))
		notify(p.freed)
	}()
	o := outcome{acked: make([]Place, 0, len(rows))}
	through = make(map[string]bool)
	now := p.clock.Now()
	published := make([]*message.Message, 0, len(rows))
	debug := p.log.Enabled(p.publishing, slog.LevelDebug)
	for i, row := range rows {
		switch err := errs[i]; {
		case err == nil:
			if debug {
				ctx := timer.WithTrace(p.publishing, envelope.TraceFrom(row.Message.Metadata.Get))
				p.log.DebugContext(ctx, "event delivered", about(row.Message, "topic", messages[i].Topic)...)
			}
			o.acked = append(o.acked, row.Place)
			published = append(published, row.Message)
			p.opt.Settled(now, messages[i].Topic, row, nil)
			through[row.Destination] = true
			if row.Attempts > 0 {
				p.failing.note(now, row, nil)
			}
		case errors.Is(err, broker.ErrUnavailable):
			o.unsent = append(o.unsent, row.Place)
			o.reason = err
		case errors.Is(err, broker.ErrRefused) && p.refused(row.Seq) >= p.opt.MaxAttempts:
			p.failing.note(now, row, nil) // its row is parked
			o.parked = append(o.parked, refusal{row: row, err: err})
		default:
			p.failing.note(now, row, err)
			o.first = cmp.Or(o.first, row.Message)
			o.deferred = append(o.deferred, Deferral{
				Place: row.Place, Destination: destination(messages[i].Topic, err), Reason: readable(err), RetryAt: now.Add(retry.Publish.After(row.Attempts + 1)),
			})
		}
	}
	if len(o.acked) > 0 {
		failpoint.Here("published")
		p.opt.Published(now, published)
	}
	if len(o.unsent) > 0 {
		p.away.Store(true)
		p.wakeUp() // if the batch was slow
		p.land(o.unsent...)
	}
	p.report.add(p.log, now, o)
	p.finish(o)
	return through
}

// about returns the attributes of a log line that name an event, and more.
func about(event *message.Message, more ...any) []any {
	header := event.Metadata.Get
	return append([]any{
		"tenant_id", header(envelope.HeaderTenantID), "service_call_id", header(envelope.HeaderServiceCallID),
		"correlation_id", header(envelope.HeaderCorrelationID), "event_id", event.UUID,
	}, more...)
}

// destination names the topic that failed, and the partition if the error names one.
func destination(topic string, err error) string {
	if part, ok := errors.AsType[broker.PartitionError](err); ok {
		return topic + "/" + part.Partition
	}
	return topic
}

// unansweredFor is how long the head publishes nothing to a topic after a publish that
// timed out. An answer ends that time earlier, and another timeout begins it anew.
const unansweredFor = 30 * time.Second

// unanswered remembers the topics whose last publish timed out, and when. Their rows would
// take up the pipeline of the head, so the head leaves them to the retries.
type unanswered struct {
	mu sync.Mutex
	at map[string]time.Time
}

// note notes the results of a batch. A topic that has taken one row of the batch answers, even
// if a partition of it does not.
func (u *unanswered) note(now time.Time, timedOut bool, messages []broker.Message, errs []error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, err := range errs {
		if !timedOut || err == nil || errors.Is(err, broker.ErrRefused) || errors.Is(err, broker.ErrUnavailable) {
			continue
		}
		if _, part := errors.AsType[broker.PartitionError](err); part && !envelope.IsReceipt(messages[i].Metadata.Get(envelope.HeaderType)) {
			continue
		}
		if u.at == nil {
			u.at = make(map[string]time.Time)
		}
		u.at[messages[i].Topic] = now
	}
	for i := range errs {
		if len(u.at) > 0 && errs[i] == nil {
			delete(u.at, messages[i].Topic)
		}
	}
}

// has reports whether a topic does not answer.
func (u *unanswered) has(now time.Time, topic string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, is := u.at[topic]
	if is && now.Sub(at).Abs() > unansweredFor {
		delete(u.at, topic)
		is = false
	}
	return is
}

// why returns the destination of a row and the reason to leave it to the retries, if its
// topic does not answer.
func (u *unanswered) why(now time.Time, topic string) (destination, reason string) {
	if !u.has(now, topic) {
		return "", ""
	}
	return topic, "the topic did not answer in time"
}
