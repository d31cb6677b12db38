package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/timer"
)

// minBacklog is the least number of events in the outbox at which the poller pauses. Events of
// other tenants wait behind them until the broker has taken them.
const minBacklog = 2000

// newPoller returns the poller, which turns timers that are due into events.
func (a *App) newPoller(behind *catchUp) *poller.Poller {
	// With one batch as the limit the poller would pause after each batch, until the forwarder
	// has read it.
	backlog := max(minBacklog, 2*a.opt.BatchSize)
	opt := poller.Options{
		Interval:  a.opt.PollingInterval,
		Batch:     a.opt.BatchSize,
		Precision: a.opt.Precision,
		Reference: reference(a.store, a.broker),
		Elapsed:   a.opt.Elapsed,
		Full:      func() bool { return a.forwarder.Waiting() >= backlog },
		Paused:    a.store.Timers().Firing,
		Trace:     a.opt.Tracing.Fire,
		Polled: func(took time.Duration, err error) {
			behind.polled(took, err)
			a.hooks.polled(took, err)
		},
		Reached: func(events []timer.DueTimeReached) {
			a.forwarder.Appended(len(events))
			a.hooks.reached(events)
		},
	}
	if a.broker != (noBroker{}) {
		opt.Await = behind.await
	}
	if a.opt.Quotas != nil {
		opt.Quotas = a.opt.Quotas
	}
	return poller.New(a.store, a.opt.Clock, a.log, opt)
}

// newForwarder returns the forwarder, which brings events from the outbox to the broker, or
// to the handlers of OnDue.
func (a *App) newForwarder() *outbox.Forwarder {
	trace := a.opt.Tracing.Settle
	events := a.store.Outbox()
	if events.Shards != nil {
		events.Shards = awaitedShards{events.Shards, a}
	}
	return outbox.New(events, a.broker.Publisher(), eventTopic(a.broker.Routing()), a.opt.Clock, a.log, outbox.Options{
		Interval:  a.opt.PollingInterval,
		Receivers: a.receivers(),
		Handlers:  a.handling,
		Grace:     a.opt.DrainTimeout,
		Settled: func(at time.Time, topic string, row outbox.Row, parked error) {
			if parked != nil {
				a.hooks.parked(row.Message, parked.Error())
			}
			if trace != nil && (len(a.handling) == 0 || outbox.IsReceipt(row.Message)) {
				trace(at, topic, row, parked)
			}
		},
		Published: func(at time.Time, events []*message.Message) {
			a.numbers.activity.Add(1)
			if slices.ContainsFunc(events, outbox.IsReceipt) {
				if events = slices.DeleteFunc(slices.Clone(events), outbox.IsReceipt); len(events) == 0 {
					return
				}
			}
			a.hooks.published(at, events)
		},
	})
}

// awaitedShards are shards of which none may be free for a while, as when another instance
// reads the messages that the database lacks. Then the start of a host goes on.
type awaitedShards struct {
	outbox.Shards
	app *App
}

// Own owns a shard. It waits for an instance with other receivers that may have died, or have
// started at the same time and be refused, too.
func (s awaitedShards) Own(ctx context.Context, r outbox.Receivers) (outbox.Lease, error) {
	for began := time.Now(); ; {
		lease, err := s.Shards.Own(ctx, r)
		switch {
		case err != nil && !errors.Is(err, outbox.ErrOtherReceivers):
			s.app.owner.wait()
			return nil, err
		case err == nil || !pause.For(ctx, retry.Shard.After(1)):
			return lease, err
		case time.Since(began) > leaseEnds:
			return nil, fmt.Errorf("%w: %w", timer.ErrFatal, err)
		}
	}
}

// receivers returns the receivers of the events of this instance.
func (a *App) receivers() outbox.Receivers {
	r := outbox.Receivers{Kind: outbox.ToBroker}
	for _, h := range a.handling {
		r.Kind, r.Prefixes = outbox.ToHandlers, append(r.Prefixes, h.Prefix)
	}
	if a.broker == (noBroker{}) {
		r.Kind = outbox.ToHandlersOnly
	}
	return r
}

// eventTopic returns the topic of an event or a receipt by the tenant in its headers. The
// topic is empty for a receipt that is left from a time when receipts were wanted: brokers
// refuse it, so it is parked.
func eventTopic(r broker.Routing) func(*message.Message) string {
	return func(event *message.Message) string {
		if outbox.IsReceipt(event) {
			return r.ReceiptsOf(timer.TenantID(event.Metadata.Get(envelope.HeaderTenantID)))
		}
		return r.EventsOf(timer.TenantID(event.Metadata.Get(envelope.HeaderTenantID)))
	}
}
