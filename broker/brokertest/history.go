package brokertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
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

// logs returns the logs of the reader's commands, by name.
func (n *node) logs(w *world) map[string]broker.Log { return n.logsOf(w, broker.Commands) }

// logsOf returns the logs of a kind, by name.
func (n *node) logsOf(w *world, kind broker.Kind) map[string]broker.Log {
	w.Helper()
	all, err := n.kept().Logs(w.Context(), "reader")
	if err != nil {
		w.Fatalf("logs: %v", err)
	}
	found := make(map[string]broker.Log)
	for _, l := range all {
		if l.Kind == kind {
			found[l.Name] = l
		}
	}
	return found
}

// settled reports whether the floors cover messages that were read.
func (n *node) settled(w *world, all []broker.Stored) bool {
	logs := n.logs(w)
	return !slices.ContainsFunc(all, func(m broker.Stored) bool { return logs[m.Log].Floor < m.Number })
}

// handle subscribes, handles n commands that have been published, and ends the
// subscription.
func (n *node) handle(w *world, commands int) {
	w.Helper()
	messages, s := n.open(w, "reader", w.Routing().Subscription())
	drain(w, messages, commands)
	w.close(s)
}

// stored returns all commands that the broker holds.
func (n *node) stored(w *world) (all []broker.Stored) {
	w.Helper()
	if err := n.kept().Read(w.Context(), broker.Commands, nil, nil, func(batch []broker.Stored) error {
		for _, m := range batch {
			m.Message = m.Message.Copy()
			all = append(all, m)
		}
		return nil
	}); err != nil {
		w.Fatalf("read commands: %v", err)
	}
	return all
}

func floorFollows(w *world) {
	const n = 100
	w.backlog(n)
	node := w.start()
	for _, l := range node.logs(w) {
		if l.Floor != 0 && l.Last > 0 && l.First <= l.Last && w.features.Durable && !l.Oldest.IsZero() {
			w.Errorf("a log of which nothing was read: %+v", l)
		}
	}
	messages := node.subscribe(w, "reader", w.Routing().Subscription())
	for range n {
		Next(w, messages).Ack()
	}
	all := w.stored(w)
	wantReplay(w, "all", all, many(n))
	Await(w, "floors that reach the last", func() bool { return node.settled(w, all) })
	for _, m := range all {
		log, number, ok := node.kept().Place(m.Message.Metadata.Get(broker.MetaTopic), m.Message.Metadata.Get(broker.MetaPosition))
		if !ok || log != m.Log || number != m.Number {
			w.Fatalf("the place of message %d of log %s is %d of log %s, %v", m.Number, m.Log, number, log, ok)
		}
		if m.Log == "" || len(m.Log) > 512 {
			w.Errorf("log %q", m.Log)
		}
	}
	if _, _, ok := node.kept().Place(w.commands(), "no position"); ok {
		w.Error("a position that is none has a place")
	}
	// Messages that are no commands, in the same log, are behind the floor when no command is unsettled.
	w.publish(w, w.Routing().EventsOf(tenant()), many(10)...)
	Await(w, "floors at the end", func() bool {
		for _, l := range node.logs(w) {
			if l.Floor != l.Last {
				return false
			}
		}
		return true
	})
}

func floorHeld(w *world) {
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
	all := w.stored(w)
	i := slices.IndexFunc(all, func(m broker.Stored) bool { return string(m.Message.Payload) == late })
	if held == nil || i < 0 {
		w.Fatalf("visited %q", bodies(all))
	}
	unacked := all[i]
	before := slices.DeleteFunc(slices.Clone(all), func(m broker.Stored) bool { return m.Log == unacked.Log && m.Number >= unacked.Number })
	Await(w, "floors before what is held", func() bool { return node.settled(w, before) })
	w.publish(w, w.Routing().EventsOf(tenant()), many(10)...)
	if w.fake {
		pause(time.Minute)
	}
	if l := node.logs(w)[unacked.Log]; l.Floor >= unacked.Number {
		w.Errorf("the floor is %+v, though %d is not acked", l, unacked.Number)
	}
	held.Ack()
	Await(w, "floors that reach the last", func() bool { return node.settled(w, all) })
}

// floorPublished publishes alone and in batches: published messages are settled.
func floorPublished(w *world) {
	t := tenant()
	for i, n := range []int{1, 10, 300} {
		all := many(n)
		for _, m := range all {
			m.UUID = fmt.Sprint(i, m.UUID)
		}
		w.publish(w, w.Routing().EventsOf(t), all...)
		w.publish(w, w.Routing().DeadLettersOf(t), letter(t, fmt.Sprint("dead ", i)))
		for _, kind := range []broker.Kind{broker.Events, broker.DeadLetter} {
			logs := w.logsOf(w, kind)
			for _, m := range w.start().replay(w, kind) {
				if l := logs[m.Log]; l.Floor < m.Number || l.Floor != l.Last {
					w.Fatalf("%v %d of %+v", kind, m.Number, l)
				}
			}
		}
	}
}

func describesLogs(w *world) {
	const n = 10
	for _, l := range w.logs(w) {
		if l.Floor != 0 || l.Delivered != 0 || l.Last != 0 || !l.Oldest.IsZero() {
			w.Errorf("a log that was never used: %+v", l)
		}
	}
	began := time.Now().Add(-time.Minute) // by another clock
	w.backlog(n)
	for _, l := range w.logs(w) {
		if l.Floor != 0 && !l.Oldest.IsZero() || l.Last > 0 && !l.Oldest.IsZero() && (l.Oldest.Before(began) || l.Oldest.After(time.Now().Add(time.Minute))) {
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
		if l.Floor > l.Delivered || l.Delivered > l.Last {
			w.Errorf("half is acked: %+v", l)
		}
	}
	if covered(func(l broker.Log) int64 { return l.Floor })() {
		w.Errorf("all is acked: %v", w.logs(w))
	}
	for _, m := range held[n/2:] {
		m.Ack()
	}
	Await(w, "all acked", covered(func(l broker.Log) int64 { return l.Floor }))
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
