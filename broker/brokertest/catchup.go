package brokertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/broker"
)

// commands is the topic of commands of a tenant.
func (w *world) commands() string { return w.Routing().CommandsOf("acme") }

// backlog publishes commands while no process reads them for a role.
func (w *world) backlog(n int) {
	w.Helper()
	w.know(w, "reader", w.Routing().Subscription())
	for all := many(n); len(all) > 0; all = all[min(500, len(all)):] {
		w.publish(w, w.commands(), all[:min(500, len(all))]...)
	}
}

// catchUp waits for the backlog of the reader, which must work.
func (w *world) catchUp(n *node) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	if err := n.CatchUp(ctx, "reader"); err != nil {
		w.Fatalf("CatchUp: %v", err)
	}
}

// catchesUp has a role that is new, then a backlog and handlers that take their time, and
// then a role that has read everything.
func catchesUp(w *world) {
	n := fewer(1000, 300)
	node := w.start()
	messages := node.subscribe(w, "reader", w.Routing().Subscription())
	w.catchUp(node)
	w.backlog(n)
	var acked atomic.Int64
	go func() {
		for msg := range messages {
			go func() {
				pause(10 * time.Millisecond)
				acked.Add(1)
				msg.Ack()
			}()
		}
	}()
	w.catchUp(node)
	if got := acked.Load(); got < int64(n) {
		w.Errorf("%d of %d were acked when CatchUp returned", got, n)
	}
	w.catchUp(node)
}

// catchesUpUnderLoad has commands published all the time.
func catchesUpUnderLoad(w *world) {
	w.backlog(100)
	messages := w.subscribe(w, "reader", w.Routing().Subscription())
	ctx, stop := context.WithCancel(w.Context())
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := 0; ctx.Err() == nil; i++ {
			if err := w.send(w.commands(), keyed(fmt.Sprint("load-", i), "load"))[0]; err != nil {
				w.Error(err)
				return
			}
			pause(time.Millisecond)
		}
	}()
	go acking(messages)
	w.catchUp(w.node)
	stop()
	<-published
}

// catchesUpBesideRetries has a handler that nacks messages, for ever.
func catchesUpBesideRetries(w *world) {
	const n = 100
	w.backlog(n)
	messages := w.subscribe(w, "reader", w.Routing().Subscription())
	var nacked atomic.Int64
	go func() {
		for msg := range messages {
			nacked.Add(1)
			msg.Nack()
		}
	}()
	w.catchUp(w.node)
	if got := nacked.Load(); got < n {
		w.Errorf("%d of %d were nacked when CatchUp returned", got, n)
	}
}

// catchesUpWithOthers has two processes that share the commands.
func catchesUpWithOthers(w *world) {
	n := fewer(1000, 300)
	w.backlog(n)
	first, second := w.start(), w.start()
	var acked atomic.Int64
	for _, node := range []*node{first, second} {
		messages := node.subscribe(w, "reader", w.Routing().Subscription())
		go func() {
			for msg := range messages {
				acked.Add(1)
				msg.Ack()
			}
		}()
	}
	w.catchUp(first)
	w.catchUp(second)
	if got := acked.Load(); got < int64(n) {
		w.Errorf("%d of %d were acked when both had caught up", got, n)
	}
}

// catchesUpAfterADeath has a process that took messages, acked none and ended.
func catchesUpAfterADeath(w *world) {
	const n = 100
	w.backlog(n)
	dead := w.start()
	taken, s := dead.open(w, "reader", w.Routing().Subscription())
	Next(w, taken)
	w.close(s)
	dead.stop()
	node := w.start()
	drained := node.subscribe(w, "reader", w.Routing().Subscription())
	go acking(drained)
	w.catchUp(node)
}

// catchUpEnds asks while no handler takes the backlog, and without a subscription.
func catchUpEnds(w *world) {
	w.backlog(1)
	ctx, cancel := context.WithTimeout(w.Context(), 200*time.Millisecond)
	defer cancel()
	if err := w.CatchUp(ctx, "reader"); !errors.Is(err, context.DeadlineExceeded) {
		w.Errorf("without a subscription: %v", err)
	}
	messages := w.subscribe(w, "reader", w.Routing().Subscription())
	msg := Next(w, messages)
	ctx, cancel = context.WithTimeout(w.Context(), 200*time.Millisecond)
	defer cancel()
	if err := w.CatchUp(ctx, "reader"); !errors.Is(err, context.DeadlineExceeded) {
		w.Errorf("with a message in flight: %v", err)
	}
	msg.Ack()
	w.catchUp(w.node)
}

// interrupts stops the server and starts it again.
func interrupts(w *world) {
	topic := w.Routing().Subscription()
	w.know(w, "reader", topic)
	messages := w.subscribe(w, "reader", topic)
	w.catchUp(w.node)
	before, away := w.Interruptions()
	if away != nil {
		w.Fatalf("away: %v", away)
	}
	w.server.Stop()
	Await(w, "an interruption", func() bool { n, _ := w.Interruptions(); return n > before })
	Await(w, "a broker that is away", func() bool { _, away := w.Interruptions(); return away != nil })
	if err := w.CatchUp(w.Context(), "reader"); !errors.Is(err, broker.ErrUnavailable) {
		w.Errorf("CatchUp while away: %v", err)
	}
	w.server.Start()
	Await(w, "a broker that is back", func() bool { _, away := w.Interruptions(); return away == nil })
	AwaitReady(w, w.node)
	w.supply(w, w.commands(), many(10)...)
	go drain(w, messages, 10)
	w.catchUp(w.node)
}
