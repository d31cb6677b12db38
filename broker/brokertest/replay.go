package brokertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// Read reads messages of a kind behind numbers of logs: commands up to the last one that was
// delivered to the role.
func Read(ctx context.Context, kept broker.History, role string, kind broker.Kind, after map[string]int64, visit func([]broker.Stored) error) error {
	if kind != broker.Commands {
		return kept.Read(ctx, kind, after, nil, visit)
	}
	logs, err := kept.Logs(ctx, role)
	upTo := make(map[string]int64)
	for _, l := range logs {
		if l.Kind == kind {
			upTo[l.Name] = l.Delivered
		}
	}
	return cmp.Or(err, kept.Read(ctx, kind, after, upTo, visit))
}

// replay returns the messages that a reading visits, which must be in order.
func (n *node) replay(w *world, kind broker.Kind, after ...map[string]int64) (all []broker.Stored) {
	w.Helper()
	last := make(map[string]int64)
	behind := make(map[string]int64)
	for _, a := range after {
		maps.Copy(behind, a)
	}
	err := Read(w.Context(), n.kept(), "reader", kind, behind, func(batch []broker.Stored) error {
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

// behind returns the numbers of the first n messages that were read, by log.
func behind(all []broker.Stored, n int) map[string]int64 {
	after := make(map[string]int64)
	for _, m := range all[:n] {
		after[m.Log] = max(after[m.Log], m.Number)
	}
	return after
}

// handled handles n commands with a broker, and ends it: a reader may find the acks of a
// subscription later than its Close returns.
func (w *world) handled(n int) {
	w.Helper()
	node := w.start()
	node.handle(w, n)
	if w.features.Durable {
		node.stop()
	}
}

func replaysCommands(w *world) {
	const n = 50
	w.backlog(n)
	w.handled(n)
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
		got := node.replay(w, broker.Commands, behind(all, read), map[string]int64{"another": 1 << 40})
		if len(got) != n-read {
			w.Errorf("behind %d commands of %d: %d", read, n, len(got))
		}
	}
}

func replaysUnacked(w *world) {
	const n = 60
	w.backlog(n)
	messages := w.subscribe(w, "reader", w.Routing().Subscription())
	for i := range n {
		msg := Next(w, messages)
		switch i % 3 {
		case 0:
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
			if got := node.replay(w, kind, behind(all, read)); len(got) != len(want)-read {
				w.Errorf("behind %d of %d: %d", read, len(want), len(got))
			}
		}
	}
	if got := node.replay(w, broker.Commands); len(got) > 0 {
		w.Errorf("%d commands, though none was delivered", len(got))
	}
}

// large fills the log of events with more than goes into a batch.
func (w *world) large(n int) (events []*message.Message) {
	w.Helper()
	events = many(n)
	t := tenant()
	for part := range slices.Chunk(events, 200) {
		w.publish(w, w.Routing().EventsOf(t), part...)
	}
	return events
}

// largeReplay returns a number of messages that is larger than a batch.
func largeReplay() int { return fewer(6_000, 4_000) }

func replaysBatches(w *world) {
	events := w.large(largeReplay())
	batches := 0
	var all []broker.Stored
	err := Read(w.Context(), w.kept(), "reader", broker.Events, nil, func(batch []broker.Stored) error {
		if batches++; len(batch) > largeReplay()-1_000 {
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
	w.handled(n)
	for _, kind := range []broker.Kind{broker.Events, broker.Commands} {
		all := w.replay(w, kind)
		for log, number := range behind(all, n/2) {
			w.server.Purge(log, number+1)
		}
		if got := w.replay(w, kind); len(got) == 0 || len(got) > n/2 {
			w.Errorf("%d of %d are left", len(got), n/2)
		}
		if got := w.replay(w, kind, behind(all, 1)); len(got) == 0 || len(got) > n/2 {
			w.Errorf("%d of %d are left behind a position that was purged", len(got), n/2)
		}
		for log, number := range behind(all, n) {
			w.server.Purge(log, number+1)
		}
		if got := w.replay(w, kind); len(got) > 0 {
			w.Errorf("%d are left of none", len(got))
		}
	}
}

func replayEnds(w *world) {
	w.large(largeReplay())
	enough := errors.New("enough")
	visits := 0
	err := Read(w.Context(), w.kept(), "reader", broker.Events, nil, func([]broker.Stored) error {
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
	if err := Read(ctx, w.kept(), "reader", broker.Events, nil, visit); !errors.Is(err, context.Canceled) || visits != 1 {
		w.Errorf("the end of ctx: %v after %d", err, visits)
	}
	if err := Read(ctx, w.kept(), "reader", broker.Events, nil, visit); !errors.Is(err, context.Canceled) || visits != 1 {
		w.Errorf("ctx that is done: %v after %d", err, visits)
	}
	if got := w.replay(w, broker.Events); len(got) != largeReplay() {
		w.Errorf("then %d", len(got))
	}
	if w.features.Durable {
		kept, _ := w.server.Broker().History()
		_, logs := kept.Logs(w.Context(), "reader")
		_, used := kept.Used(w.Context(), "reader")
		for what, err := range map[string]error{"Read": Read(w.Context(), kept, "reader", broker.Events, nil, visit), "Logs": logs, "Used": used} {
			if !errors.Is(err, broker.ErrUnavailable) || visits != 1 {
				w.Errorf("%s of a broker that does not run: %v", what, err)
			}
		}
	}
}

func replaysThroughOutage(w *world) {
	if !w.features.History {
		w.Skip("not a feature of this driver")
	}
	events := w.large(largeReplay())
	visits := 0
	var all []broker.Stored
	visited := make(map[string]bool)
	err := Read(w.Context(), w.kept(), "reader", broker.Events, nil, func(batch []broker.Stored) error {
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
