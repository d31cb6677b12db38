package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	overlapAfter   = 100 * time.Millisecond // longest time that a publish of the head holds back the next one
	publishTimeout = 10 * time.Second       // a row without a result by then is deferred
)

// A pipeline has the rows that a loop has in flight at the broker, at most a batch and a page
// of rows that were read again.
type pipeline struct {
	*sender
	finish    func(outcome) // settles a batch
	away      atomic.Bool   // the broker was unavailable for a batch
	rows      atomic.Int64  // in flight
	freed     chan struct{} // holds one: rows are no longer in flight
	publishes sync.WaitGroup
}

func newPipeline(s *sender, finish func(outcome)) *pipeline {
	return &pipeline{sender: s, finish: finish, freed: make(chan struct{}, 1)}
}

// vacancy waits until rows may be published, or handed over to the handlers that work, and
// returns how many. It returns zero if ctx ends.
func (p *pipeline) vacancy(ctx context.Context) int {
	for ctx.Err() == nil {
		n := p.opt.Batch - int(p.rows.Load())
		for _, h := range p.opt.Handlers {
			n = min(n, h.queue.vacancy(p.clock.Now()))
		}
		if n > 0 {
			return n
		}
		select {
		case <-p.freed:
		case <-time.After(maxWait):
		case <-ctx.Done():
		}
	}
	return 0
}

// send publishes rows of the head together. It waits for their results, but not for long: a
// destination that does not answer delays the results of the others.
func (p *pipeline) send(rows []Row) {
	rows, messages := p.dispatch(rows)
	if len(rows) == 0 {
		return
	}
	done := make(chan struct{})
	p.publishes.Go(func() {
		p.publish(rows, messages)
		close(done)
	})
	slow := time.NewTimer(overlapAfter)
	defer slow.Stop()
	select {
	case <-done:
	case <-slow.C:
	}
}

// publish publishes rows in one call and settles them by their results. It reports whether
// the broker took any.
func (p *pipeline) publish(rows []Row, messages []broker.Message) bool {
	ctx, cancel := context.WithTimeout(p.publishing, publishTimeout)
	defer cancel()
	errs := p.pub.Publish(ctx, messages...)
	now, o := p.clock.Now(), outcome{acked: make([]Place, 0, len(rows)), events: make([]*message.Message, 0, len(rows))}
	if p.destinations.note(now, errors.Is(ctx.Err(), context.DeadlineExceeded), rows, messages, errs) {
		notify(p.retry)
	}
	for i, row := range rows {
		p.note(&o, now, row, messages[i].Topic, nil, errs[i])
	}
	p.end(now, len(rows), o)
	return len(o.acked) > 0
}

// dispatch hands the events of rows to handlers, and returns the rows that go to the broker,
// with their messages: they are in flight from now on. It defers a row that can go nowhere
// now: its headers can't be read, no handler of this process wants it, or its topic does not
// answer.
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
		case !row.Deferred && now.Sub(p.destinations.get(topic).silent).Abs() <= silentFor:
			p.refuse(&o, now, row, topic, "the topic did not answer in time")
		default:
			toBroker, messages = append(toBroker, row), append(messages, broker.Message{Topic: topic, Message: row.Message})
		}
	}
	if len(o.deferred) > 0 {
		p.end(now, 0, o)
	}
	p.rows.Add(int64(len(toBroker)))
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

// snoozedKey marks the context of a message.
type snoozedKey struct{}

// DueAt returns when an event that was published was due, and whether its lateness counts. That of
// other messages does not, of timers that expired, and of events that their handler had wanted later.
func DueAt(m *message.Message) (due time.Time, counts bool) {
	due, counts = envelope.DueAt(m.UUID)
	return due, counts && m.Metadata.Get(envelope.HeaderType) != envelope.TypeTimerExpired && m.Context().Value(snoozedKey{}) == nil
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
		if strings.HasPrefix(row.Destination, Snoozed) {
			row.Message.SetContext(context.WithValue(row.Message.Context(), snoozedKey{}, true))
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
	case h != nil && later(err) != nil:
		p.failing.note(now, now, row, nil)
		o.deferred = append(o.deferred, Deferral{
			Place: row.Place, Destination: Snoozed + h.destination(row), Reason: readable(err), RetryAt: timer.RoundUp(now.Add(max(0, later(err).After))), Untried: true,
		})
	case h != nil && (errors.Is(err, timer.ErrInvalid) || row.Attempts+1 >= h.Attempts),
		h == nil && errors.Is(err, broker.ErrRefused) && p.refused(row.Seq) >= p.opt.MaxAttempts:
		p.failing.note(now, now, row, nil) // its row is parked
		o.parked = append(o.parked, refusedRow{row: row, err: err, handler: h})
	default:
		to, policy, at := failedAt(topic, err), retry.Publish, err
		if h != nil {
			to, policy, at = h.destination(row), h.policy(), fmt.Errorf("%w, in %s", err, h)
		}
		d := deferral(now, row, to, readable(err), policy)
		if rest := p.destinations.get(to); h == nil && rest.rests(now) && rest.failures > row.Attempts { // its destination is at fault
			d.RetryAt = rest.next
		}
		p.failing.note(now, d.RetryAt, row, at)
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

// failedAt names the topic that failed, and the partition if the error names one.
func failedAt(topic string, err error) string {
	if part, ok := errors.AsType[broker.PartitionError](err); ok {
		return topic + "/" + part.Partition
	}
	return topic
}
