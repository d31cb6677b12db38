package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// withoutHistory is for brokers that keep nothing.
func withoutHistory(w *world) {
	_, err := w.Logs(w.Context(), "reader")
	_, err2 := w.Used(w.Context(), "reader")
	err3 := w.Replay(w.Context(), "reader", broker.Commands, nil, func([]broker.Stored) error { return nil })
	for _, err := range []error{err, err2, err3} {
		if !errors.Is(err, errors.ErrUnsupported) {
			w.Errorf("got %v, want ErrUnsupported", err)
		}
	}
	if p := w.Positions("reader"); len(p) > 0 {
		w.Errorf("positions %v", p)
	}
}

// replay returns what a replay visits, which must be in order.
func (n *node) replay(w *world, kind broker.Kind, from ...timer.Position) (all []broker.Stored) {
	w.Helper()
	last := make(map[string]int64)
	err := n.Replay(w.Context(), "reader", kind, from, func(batch []broker.Stored) error {
		if len(batch) == 0 {
			w.Error("an empty batch")
		}
		for _, m := range batch {
			if m.Number <= last[m.Log] {
				w.Errorf("number %d of log %s comes behind %d", m.Number, m.Log, last[m.Log])
			}
			last[m.Log] = m.Number
			m.Message = m.Message.Copy()
			all = append(all, m)
		}
		return nil
	})
	if err != nil {
		w.Fatalf("replay: %v", err)
	}
	return all
}

// bodies returns the bodies of messages, sorted: there may be several logs.
func bodies(all []broker.Stored) (sorted []string) {
	for _, m := range all {
		sorted = append(sorted, string(m.Message.Payload))
	}
	slices.Sort(sorted)
	return sorted
}

// wantReplay fails the test unless a replay visited messages with the bodies of others.
func wantReplay(w *world, what string, got []broker.Stored, want []*message.Message) {
	w.Helper()
	var sorted []string
	for _, m := range want {
		sorted = append(sorted, string(m.Payload))
	}
	slices.Sort(sorted)
	if !slices.Equal(bodies(got), sorted) {
		w.Errorf("%s: visited %d messages, want %d: %.500s", what, len(got), len(sorted), fmt.Sprint(bodies(got)))
	}
}

// behind returns the positions behind the first n messages of a replay, for either
// kind: the log of each is read up to there.
func behind(all []broker.Stored, n int) (from []timer.Position) {
	for _, m := range all[:n] {
		i := slices.IndexFunc(from, func(p timer.Position) bool { return p.Log == m.Log })
		if i < 0 {
			i, from = len(from), append(from, timer.Position{Log: m.Log})
		}
		from[i].Done, from[i].Seen = max(from[i].Done, m.Number), max(from[i].Seen, m.Number)
	}
	return from
}

// positions returns those of the reader, by log.
func (n *node) positions() map[string]timer.Position {
	found := make(map[string]timer.Position)
	for _, p := range n.Positions("reader") {
		found[p.Log] = p
	}
	return found
}

// reaches reports whether positions cover messages that were replayed.
func (n *node) reaches(all []broker.Stored, number func(timer.Position) int64) bool {
	found := n.positions()
	return !slices.ContainsFunc(all, func(m broker.Stored) bool { return number(found[m.Log]) < m.Number })
}

func done(p timer.Position) int64 { return p.Done }
func seen(p timer.Position) int64 { return p.Seen }

// logs returns those of the reader.
func (n *node) logs(w *world) map[string]broker.Log {
	w.Helper()
	all, err := n.Logs(w.Context(), "reader")
	if err != nil {
		w.Fatalf("logs: %v", err)
	}
	found := make(map[string]broker.Log)
	for _, l := range all {
		found[l.Name] = l
	}
	return found
}

// handle subscribes, handles n commands that have been published, and ends the
// subscription.
func (n *node) handle(w *world, commands int) {
	w.Helper()
	messages, s := n.open(w, "reader", w.Routing().Subscription())
	drain(w, messages, commands)
	if err := s.Close(); err != nil {
		w.Errorf("Close: %v", err)
	}
}

func positionsEmpty(w *world) {
	messages := w.subscribe(w, "reader", w.Routing().Subscription())
	if p := w.Positions("reader"); len(p) > 0 {
		w.Errorf("positions %v before the first message", p)
	}
	w.publish(w, w.commands(), many(1)...)
	next(w, messages).Ack()
	if p := w.Positions("reader"); len(p) == 0 {
		w.Error("no positions after it")
	}
}

func positionsFollow(w *world) {
	const n = 100
	w.backlog(n)
	node := w.start()
	if p := node.Positions("reader"); len(p) > 0 && w.features.Durable {
		w.Errorf("positions %v before the first message", p)
	}
	messages := node.subscribe(w, "reader", w.Routing().Subscription())
	at := make(map[string]map[string]timer.Position) // by message, as its handler ran
	for len(at) < n {
		msg := next(w, messages)
		at[msg.UUID] = node.positions()
		msg.Ack()
	}
	all := w.replay(w, broker.Commands)
	wantReplay(w, "all", all, many(n))
	for _, m := range all {
		if p := at[m.Message.UUID][m.Log]; p.Seen < m.Number {
			w.Errorf("the position was %v when %d was handled", p, m.Number)
		}
	}
	await(w, "positions that reach the last", func() bool { return node.reaches(all, done) && node.reaches(all, seen) })
	for i, p := range node.Positions("reader") {
		if len(p.Log) == 0 || len(p.Log) > 512 || i > 0 && p.Log == node.Positions("reader")[i-1].Log {
			w.Errorf("position %v", p)
		}
	}
}

func positionsHeld(w *world) {
	const n, late = 10, "4"
	w.backlog(n)
	node := w.start()
	messages := node.subscribe(w, "reader", w.Routing().Subscription())
	var held *message.Message
	for range n {
		if msg := next(w, messages); string(msg.Payload) == late {
			held = msg
		} else {
			msg.Ack()
		}
	}
	all := w.replay(w, broker.Commands)
	i := slices.IndexFunc(all, func(m broker.Stored) bool { return string(m.Message.Payload) == late })
	if held == nil || i < 0 {
		w.Fatalf("visited %q", bodies(all))
	}
	unacked := all[i]
	before := slices.DeleteFunc(slices.Clone(all), func(m broker.Stored) bool { return m.Log == unacked.Log && m.Number >= unacked.Number })
	await(w, "positions before what is held", func() bool { return node.reaches(before, done) })
	if !node.reaches(all, seen) {
		w.Errorf("positions %v", node.positions())
	}
	if w.fake {
		pause(time.Minute)
	}
	if p := node.positions()[unacked.Log]; p.Done >= unacked.Number {
		w.Errorf("the position is %v, though %d is not acked", p, unacked.Number)
	}
	held.Ack()
	await(w, "positions that reach the last", func() bool { return node.reaches(all, done) })
}

// positionsPublished publishes alone and in batches.
func positionsPublished(w *world) {
	t := tenant()
	for i, n := range []int{1, 10, 300} {
		all := many(n)
		for _, m := range all {
			m.UUID = fmt.Sprint(i, m.UUID)
		}
		w.publish(w, w.Routing().EventsOf(t), all...)
		if !w.reaches(w.start().replay(w, broker.Events), seen) {
			w.Errorf("positions %v after %d events", w.positions(), n)
		}
	}
}

func describesLogs(w *world) {
	const n = 10
	for _, l := range w.logs(w) {
		if l.Acked != 0 || l.Delivered != 0 || l.Pending != 0 || l.Last != 0 || !l.Oldest.IsZero() {
			w.Errorf("a log that was never used: %+v", l)
		}
	}
	began := time.Now().Add(-time.Minute) // by another clock
	w.backlog(n)
	for _, l := range w.logs(w) {
		if l.Acked != 0 || l.Delivered != 0 || l.Last > 0 && (l.Oldest.Before(began) || l.Oldest.After(time.Now().Add(time.Minute))) {
			w.Errorf("a log that was not read: %+v, began at %v", l, began)
		}
	}
	messages := w.subscribe(w, "reader", w.Routing().Subscription())
	var held []*message.Message
	for range n {
		held = append(held, next(w, messages))
	}
	all := w.replay(w, broker.Commands)
	wantReplay(w, "what was delivered", all, held)
	covered := func(number func(broker.Log) int64) func() bool {
		return func() bool {
			found := w.logs(w)
			return !slices.ContainsFunc(all, func(m broker.Stored) bool { return number(found[m.Log]) < m.Number })
		}
	}
	await(w, "all delivered", covered(func(l broker.Log) int64 { return l.Delivered }))
	for _, m := range held[:n/2] {
		m.Ack()
	}
	for _, l := range w.logs(w) {
		if l.Acked > l.Delivered || l.Delivered > l.Last || l.Pending < 0 || l.Pending > n {
			w.Errorf("half is acked: %+v", l)
		}
	}
	if covered(func(l broker.Log) int64 { return l.Acked })() {
		w.Errorf("all is acked: %v", w.logs(w))
	}
	for _, m := range held[n/2:] {
		m.Ack()
	}
	await(w, "all acked", covered(func(l broker.Log) int64 { return l.Acked }))
	for _, l := range w.logs(w) {
		if l.Pending != 0 {
			w.Errorf("all is acked: %+v", l)
		}
	}
}

func replaysCommands(w *world) {
	const n = 50
	w.backlog(n)
	w.handle(w, n)
	var later []*message.Message
	for i := range 20 {
		later = append(later, keyed(fmt.Sprint("later-", i), "later"))
	}
	w.publish(w, w.commands(), later...)
	node := w.start()
	all := node.replay(w, broker.Commands)
	wantReplay(w, "what was delivered", all, many(n))
	for _, m := range all {
		meta := m.Message.Metadata
		if meta.Get(broker.MetaTopic) != w.commands() || meta.Get(broker.MetaPosition) == "" || meta.Get(broker.MetaDelivery) != "" || m.Message.UUID == "" {
			w.Errorf("metadata %v", meta)
		}
		if age := time.Since(m.At); age < -time.Minute || age > time.Hour {
			w.Errorf("stored %v ago", age)
		}
	}
	for _, read := range []int{1, n / 2, n} {
		got := node.replay(w, broker.Commands, append(behind(all, read), timer.Position{Log: "another", Done: 1 << 40, Seen: 1 << 40})...)
		if len(got) != n-read {
			w.Errorf("behind %d commands of %d: %d", read, n, len(got))
		}
	}
	if got := node.replay(w, broker.Commands, timer.Position{Log: all[0].Log, Seen: 1 << 40}); len(got) != n {
		w.Errorf("behind what was seen, and not done: %d of %d commands", len(got), n)
	}
}

func replaysUnacked(w *world) {
	const n = 60
	w.backlog(n)
	messages := w.subscribe(w, "reader", w.Routing().Subscription())
	for i := range n {
		msg := next(w, messages)
		switch i % 3 {
		case 0:
			broker.RetryAfter(msg, time.Hour)
			msg.Nack()
		case 1:
			msg.Ack()
		}
	}
	wantReplay(w, "what was delivered", w.start().replay(w, broker.Commands), many(n))
}

func replaysTenants(w *world) {
	const tenants, each = 5, 20
	var events, letters []*message.Message
	for i := range tenants {
		t := tenant()
		for j := range each {
			event, dead := keyed(fmt.Sprint("call-", i, "-", j), fmt.Sprint("event ", i, " ", j)), letter(t, fmt.Sprint("dead ", i, " ", j))
			events, letters = append(events, event), append(letters, dead)
			w.publish(w, w.Routing().EventsOf(t), event)
			w.publish(w, w.Routing().DeadLettersOf(t), dead)
		}
		w.publish(w, w.commands(), keyed(fmt.Sprint("call-", i), "command"))
	}
	node := w.start()
	for kind, want := range map[broker.Kind][]*message.Message{broker.Events: events, broker.DeadLetter: letters} {
		all := node.replay(w, kind)
		wantReplay(w, "all", all, want)
		for _, read := range []int{1, len(all) / 2, len(all)} {
			if got := node.replay(w, kind, behind(all, read)...); len(got) != len(want)-read {
				w.Errorf("behind %d of %d: %d", read, len(want), len(got))
			}
		}
	}
	if got := node.replay(w, broker.Commands); len(got) > 0 {
		w.Errorf("%d commands, though none was delivered", len(got))
	}
}

func replaysNothing(w *world) {
	kinds := []broker.Kind{broker.Commands, broker.Events, broker.DeadLetter}
	for _, kind := range kinds {
		if got := w.replay(w, kind); len(got) > 0 {
			w.Errorf("%d messages where there are none", len(got))
		}
	}
	t := tenant()
	w.publish(w, w.Routing().EventsOf(t), plain("event"))
	w.publish(w, w.Routing().DeadLettersOf(t), letter(t, "dead"))
	w.publish(w, w.commands(), many(1)...)
	w.handle(w, 1)
	for _, kind := range kinds {
		all := w.replay(w, kind)
		if len(all) != 1 {
			w.Errorf("%d messages, want one", len(all))
		}
		if got := w.replay(w, kind, behind(all, len(all))...); len(got) > 0 {
			w.Errorf("%d messages behind the last", len(got))
		}
	}
}

// large fills the log of events with more than goes into a batch.
func (w *world) large(n int) (events []*message.Message) {
	w.Helper()
	events = many(n)
	t := tenant()
	for part := range slices.Chunk(events, 1000) {
		w.publish(w, w.Routing().EventsOf(t), part...)
	}
	return events
}

const largeReplay = 6_000 // more than a batch is

func replaysBatches(w *world) {
	events := w.large(largeReplay)
	batches := 0
	var all []broker.Stored
	err := w.Replay(w.Context(), "reader", broker.Events, nil, func(batch []broker.Stored) error {
		if batches++; len(batch) > largeReplay-1_000 {
			w.Errorf("a batch of %d", len(batch))
		}
		all = append(all, batch...)
		return nil
	})
	if err != nil || batches < 2 {
		w.Errorf("%d batches, %v", batches, err)
	}
	wantReplay(w, "all", all, events)
}

func replaysPurged(w *world) {
	if w.server.Purge == nil {
		w.Skip("the logs of this test can't be purged")
	}
	const n = 100
	w.large(n)
	w.backlog(n)
	w.handle(w, n)
	for _, kind := range []broker.Kind{broker.Events, broker.Commands} {
		all := w.replay(w, kind)
		for _, p := range behind(all, n/2) {
			w.server.Purge(p.Log, p.Done+1)
		}
		if got := w.replay(w, kind); len(got) == 0 || len(got) > n/2 {
			w.Errorf("%d of %d are left", len(got), n/2)
		}
		if got := w.replay(w, kind, behind(all, 1)...); len(got) == 0 || len(got) > n/2 {
			w.Errorf("%d of %d are left behind a position that was purged", len(got), n/2)
		}
		for _, p := range behind(all, n) {
			w.server.Purge(p.Log, p.Done+1)
		}
		if got := w.replay(w, kind); len(got) > 0 {
			w.Errorf("%d are left of none", len(got))
		}
	}
}

func replayEnds(w *world) {
	w.large(largeReplay)
	enough := errors.New("enough")
	visits := 0
	err := w.Replay(w.Context(), "reader", broker.Events, nil, func([]broker.Stored) error {
		visits++
		return enough
	})
	if !errors.Is(err, enough) || visits != 1 {
		w.Errorf("an error of visit: %v after %d", err, visits)
	}
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	visits = 0
	visit := func([]broker.Stored) error {
		visits++
		cancel()
		return nil
	}
	if err := w.Replay(ctx, "reader", broker.Events, nil, visit); !errors.Is(err, context.Canceled) || visits != 1 {
		w.Errorf("the end of ctx: %v after %d", err, visits)
	}
	if err := w.Replay(ctx, "reader", broker.Events, nil, visit); !errors.Is(err, context.Canceled) || visits != 1 {
		w.Errorf("ctx that is done: %v after %d", err, visits)
	}
	if got := w.replay(w, broker.Events); len(got) != largeReplay {
		w.Errorf("then %d", len(got))
	}
	if w.features.Durable {
		err := w.server.Broker().Replay(w.Context(), "reader", broker.Events, nil, visit)
		if !errors.Is(err, broker.ErrUnavailable) || visits != 1 {
			w.Errorf("a broker that does not run: %v", err)
		}
	}
}

func replaysAtOnce(w *world) {
	const n = 100
	events := w.large(largeReplay)
	w.backlog(n)
	w.handle(w, n)
	other := w.start()
	var all sync.WaitGroup
	for _, node := range []*node{w.node, other} {
		for kind, want := range map[broker.Kind][]*message.Message{broker.Events: events, broker.Commands: many(n)} {
			all.Go(func() {
				var got []broker.Stored
				if err := node.Replay(w.Context(), "reader", kind, nil, func(batch []broker.Stored) error {
					got = append(got, batch...)
					return nil
				}); err != nil {
					w.Error(err)
				}
				wantReplay(w, "at once", got, want)
			})
		}
	}
	all.Wait()
}

// names returns the names of the logs, sorted, after one command.
func (w *world) names() (names []string) {
	w.Helper()
	n := w.start()
	n.publish(w, w.commands(), plain("command"))
	for name := range n.logs(w) {
		names = append(names, name)
	}
	n.stop()
	slices.Sort(names)
	return names
}

func renamesLog(w *world) {
	if w.server.Delete == nil {
		w.Skip("the logs of this test can't be deleted")
	}
	w.stop()
	first, second := w.names(), w.names()
	if len(first) == 0 || !slices.Equal(first, second) {
		w.Errorf("logs are called %q, and then %q", first, second)
	}
	w.server.Delete()
	for _, name := range w.names() {
		if slices.Contains(first, name) {
			w.Errorf("log %s has its old name", name)
		}
	}
}

func keepsName(w *world) {
	if !w.features.History {
		w.Skip("not a feature of this driver")
	}
	w.stop()
	first := w.names()
	w.server.Stop()
	w.server.Start()
	if second := w.names(); len(first) == 0 || !slices.Equal(first, second) {
		w.Errorf("logs are called %q, and then %q", first, second)
	}
}

func replaysThroughOutage(w *world) {
	if !w.features.History {
		w.Skip("not a feature of this driver")
	}
	events := w.large(largeReplay)
	visits := 0
	var all []broker.Stored
	visited := make(map[string]bool)
	err := w.Replay(w.Context(), "reader", broker.Events, nil, func(batch []broker.Stored) error {
		for _, m := range batch {
			if key := fmt.Sprint(m.Log, m.Number); !visited[key] {
				visited[key] = true
				all = append(all, m)
			}
		}
		if visits++; visits <= 2 {
			w.server.Stop()
			w.server.Start()
		}
		return nil
	})
	if err != nil {
		w.Error(err)
	}
	wantReplay(w, "all", all, events)
}

func usedByAnother(w *world) {
	used := func() bool {
		w.Helper()
		used, err := w.Used(w.Context(), "reader")
		if err != nil {
			w.Fatalf("Used: %v", err)
		}
		return used
	}
	if used() {
		w.Error("used before the role was known")
	}
	topic := w.Routing().Subscription()
	w.know(w, "reader", topic)
	other := w.start()
	_, s := other.open(w, "reader", topic)
	await(w, "one that is used", used)
	if err := s.Close(); err != nil {
		w.Errorf("Close: %v", err)
	}
	other.stop()
	await(w, "one that is not used", func() bool { return !used() })

	messages := w.subscribe(w, "reader", topic)
	w.publish(w, w.commands(), many(10)...)
	drain(w, messages, 10)
	for range 10 {
		if used() {
			w.Error("used by itself")
		}
	}
	third := w.start()
	third.subscribe(w, "reader", topic)
	await(w, "one that is used by another", used)
	third.stop()
	await(w, "one that is used by itself", func() bool { return !used() })
}
