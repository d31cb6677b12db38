package brokertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// kept returns the history of the broker, whose driver must have the feature.
func (n *node) kept() broker.History {
	kept, _ := n.History()
	return kept
}

// withoutHistory has a broker that keeps nothing.
func withoutHistory(w *world) {
	if kept, lacks := w.History(); kept != nil || lacks == "" {
		w.Errorf("the history is %v, and lacks %q", kept, lacks)
	}
}

// positions returns the positions of the reader, by log.
func (n *node) positions() map[string]timer.Position {
	found := make(map[string]timer.Position)
	for _, p := range n.kept().Positions("reader") {
		found[p.Log] = p
	}
	return found
}

// reaches reports whether positions cover messages that were replayed.
func (n *node) reaches(all []broker.Stored, number func(timer.Position) int64) bool {
	found := n.positions()
	return !slices.ContainsFunc(all, func(m broker.Stored) bool { return number(found[m.Log]) < m.Number })
}

func done(p timer.Position) int64 { return p.Committed }
func seen(p timer.Position) int64 { return p.Observed }

// logs returns the logs of the reader, by name.
func (n *node) logs(w *world) map[string]broker.Log {
	w.Helper()
	all, err := n.kept().Logs(w.Context(), "reader")
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
	w.close(s)
}

func positionsEmpty(w *world) {
	messages := w.subscribe(w, "reader", w.Routing().Subscription())
	if p := w.kept().Positions("reader"); len(p) > 0 {
		w.Errorf("positions %v before the first message", p)
	}
	w.publish(w, w.commands(), many(1)...)
	Next(w, messages).Ack()
	if p := w.kept().Positions("reader"); len(p) == 0 {
		w.Error("no positions after it")
	}
}

func positionsFollow(w *world) {
	const n = 100
	w.backlog(n)
	node := w.start()
	if p := node.kept().Positions("reader"); len(p) > 0 && w.features.Durable {
		w.Errorf("positions %v before the first message", p)
	}
	messages := node.subscribe(w, "reader", w.Routing().Subscription())
	at := make(map[string]map[string]timer.Position) // by message, as its handler ran
	for len(at) < n {
		msg := Next(w, messages)
		at[msg.UUID] = node.positions()
		msg.Ack()
	}
	all := w.replay(w, broker.Commands)
	wantReplay(w, "all", all, many(n))
	for _, m := range all {
		if p := at[m.Message.UUID][m.Log]; p.Observed < m.Number {
			w.Errorf("the position was %v when %d was handled", p, m.Number)
		}
	}
	Await(w, "positions that reach the last", func() bool { return node.reaches(all, done) && node.reaches(all, seen) })
	for i, p := range node.kept().Positions("reader") {
		if len(p.Log) == 0 || len(p.Log) > 512 || i > 0 && p.Log == node.kept().Positions("reader")[i-1].Log {
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
		if msg := Next(w, messages); string(msg.Payload) == late {
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
	Await(w, "positions before what is held", func() bool { return node.reaches(before, done) })
	if !node.reaches(all, seen) {
		w.Errorf("positions %v", node.positions())
	}
	if w.fake {
		pause(time.Minute)
	}
	if p := node.positions()[unacked.Log]; p.Committed >= unacked.Number {
		w.Errorf("the position is %v, though %d is not acked", p, unacked.Number)
	}
	held.Ack()
	Await(w, "positions that reach the last", func() bool { return node.reaches(all, done) })
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
		held = append(held, Next(w, messages))
	}
	all := w.replay(w, broker.Commands)
	wantReplay(w, "what was delivered", all, held)
	covered := func(number func(broker.Log) int64) func() bool {
		return func() bool {
			found := w.logs(w)
			return !slices.ContainsFunc(all, func(m broker.Stored) bool { return number(found[m.Log]) < m.Number })
		}
	}
	Await(w, "all delivered", covered(func(l broker.Log) int64 { return l.Delivered }))
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
	Await(w, "all acked", covered(func(l broker.Log) int64 { return l.Acked }))
	for _, l := range w.logs(w) {
		if l.Pending != 0 {
			w.Errorf("all is acked: %+v", l)
		}
	}
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

func usedByAnother(w *world) {
	used := func() bool {
		w.Helper()
		used, err := w.kept().Used(w.Context(), "reader")
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
	Await(w, "one that is used", used)
	w.close(s)
	other.stop()
	Await(w, "one that is not used", func() bool { return !used() })
}
