package outbox

import (
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
	slowPublish = 100 * time.Millisecond // how long the next batch waits for a batch at most
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
	longWaits *time.Ticker  // ticks when calls of handlers may have waited for long
	publishes sync.WaitGroup
}

func newPipeline(s *sender, finish func(outcome)) *pipeline {
	p := &pipeline{sender: s, finish: finish, freed: make(chan struct{}, 1), longWaits: time.NewTicker(maxWait)}
	p.timeout.Store(int64(maxTimeout))
	return p
}

// vacancy waits until rows may be published, and returns how many. It returns zero if
// ctx ends. Calls of handlers that have waited for long make room for others.
func (p *pipeline) vacancy(ctx context.Context) int {
	for ctx.Err() == nil {
		if n := p.opt.Batch - int(p.rows.Load()); n > 0 {
			return n
		}
		select {
		case <-p.freed:
		case <-p.longWaits.C:
			p.makeRoom(maxWait)
		case <-ctx.Done():
		}
	}
	return 0
}

// publish publishes rows and settles them. It returns the destinations that took a row. If
// the publish is slow it returns nil, and settles the rows later.
func (p *pipeline) publish(rows []Row) map[string]bool {
	rows, messages := p.dispatch(rows)
	if len(rows) == 0 {
		return nil
	}
	p.rows.Add(int64(len(rows)))
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

// dispatch hands the events of rows to handlers, and returns the rows that go to the broker,
// with their messages. It defers a row that can go nowhere now: its headers can't be read, no
// handler of this process wants it, or its handler or topic delays others.
func (p *pipeline) dispatch(rows []Row) (toBroker []Row, messages []broker.Message) {
	toBroker, messages = rows[:0], make([]broker.Message, 0, len(rows))
	now := p.clock.Now()
	var o outcome
	for _, row := range rows {
		switch topic, h := p.topic(row.Message), p.handler(row); {
		case row.Err != nil: // a person has to repair or delete it
			p.refuse(&o, now, row, "damaged", readable(row.Err))
		case h != nil:
			p.handOver(now, h, row)
		case len(p.opt.Handlers) > 0 && !IsReceipt(row.Message):
			p.logs.unhandled.Note(1, []any{"prefix", PrefixOf(row.Message.Metadata.Get(envelope.HeaderServiceCallID))}, about(row.Message, "error", unclaimed)...)
			o.deferred = append(o.deferred, Deferral{
				Place: row.Place, Destination: row.Message.Metadata.Get(envelope.HeaderServiceCallID), Reason: unclaimed, RetryAt: now, Untried: true, Unclaimed: true,
			})
		case !row.Deferred && p.unanswered.has(now, topic):
			p.refuse(&o, now, row, topic, "the topic did not answer in time")
		default:
			toBroker, messages = append(toBroker, row), append(messages, broker.Message{Topic: topic, Message: row.Message})
		}
	}
	if len(o.deferred) > 0 {
		p.end(now, 0, o)
	}
	return toBroker, messages
}

// refuse defers a row that is not published, and logs why.
func (p *pipeline) refuse(o *outcome, now time.Time, row Row, destination, reason string) {
	p.logs.failed(row, nil, destination, reason)
	o.deferred = append(o.deferred, deferral(now, row, destination, reason, retry.Publish))
}

// deferral returns when a row that failed once more is tried again, by a policy.
func deferral(now time.Time, row Row, destination, reason string, policy retry.Policy) Deferral {
	return Deferral{Place: row.Place, Destination: destination, Reason: reason, RetryAt: now.Add(policy.After(row.Attempts + 1))}
}

// IsReceipt reports whether a message of the outbox is a receipt, which the broker gets in any
// case, and not an event.
func IsReceipt(m *message.Message) bool {
	return envelope.IsReceipt(m.Metadata.Get(envelope.HeaderType))
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

// done settles rows by the results of their publish.
func (p *pipeline) done(rows []Row, messages []broker.Message, errs []error) (through map[string]bool) {
	now, o := p.clock.Now(), outcome{acked: make([]Place, 0, len(rows)), events: make([]*message.Message, 0, len(rows))}
	through = make(map[string]bool)
	for i, row := range rows {
		if errs[i] == nil {
			through[row.Destination] = true
		}
		p.note(&o, now, row, messages[i].Topic, nil, errs[i])
	}
	p.end(now, len(rows), o)
	return through
}

// note adds the result of a row to an outcome. It is the result of a handler if that is given,
// and of a publish if not.
func (p *pipeline) note(o *outcome, now time.Time, row Row, topic string, h *Handler, err error) {
	switch {
	case err == nil:
		if p.log.Enabled(p.publishing, slog.LevelDebug) {
			ctx := timer.WithTrace(p.publishing, envelope.TraceFrom(row.Message.Metadata.Get))
			p.log.DebugContext(ctx, "event delivered", about(row.Message, "topic", topic)...)
		}
		o.acked, o.events = append(o.acked, row.Place), append(o.events, row.Message)
		p.opt.Settled(now, topic, row, nil)
		if row.Attempts > 0 {
			p.failing.note(now, now, row, nil)
		}
	case errors.Is(err, broker.ErrUnavailable) && h == nil, errors.Is(err, ErrNotBegun):
		o.unsent, o.away = append(o.unsent, row.Place), err
		if h != nil {
			p.logs.failed(row, h, "", readable(err))
		}
	case h != nil && (errors.Is(err, timer.ErrInvalid) || row.Attempts+1 >= h.Attempts),
		h == nil && errors.Is(err, broker.ErrRefused) && p.refused(row.Seq) >= p.opt.MaxAttempts:
		p.failing.note(now, now, row, nil) // its row is parked
		o.parked = append(o.parked, refusal{row: row, err: err, handler: h})
	default:
		to, policy := destination(topic, err), retry.Publish
		if h != nil {
			to, policy = h.destination(row), h.policy()
		}
		d := deferral(now, row, to, readable(err), policy)
		p.failing.note(now, d.RetryAt, row, err)
		p.logs.failed(row, h, to, d.Reason)
		o.deferred = append(o.deferred, d)
	}
}

// end hands an outcome over to be settled. Rows is how many rows of it count as in flight in
// the pipeline: they make room for others.
func (p *pipeline) end(now time.Time, rows int, o outcome) {
	if len(o.events) > 0 {
		failpoint.Here("published")
		p.opt.Published(now, o.events)
	}
	p.land(o.unsent...)
	if o.away != nil {
		p.away.Store(true)
		p.wakeUp() // the loop may not wait for this batch
	}
	p.report.add(p.log, now, o)
	p.finish(o)
	p.rows.Add(-int64(rows))
	notify(p.freed)
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
		if _, part := errors.AsType[broker.PartitionError](err); part && !IsReceipt(messages[i].Message) {
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
	return is && now.Sub(at).Abs() <= unansweredFor
}
