package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// tenant returns a tenant that was never used before.
func tenant() timer.TenantID {
	return timer.TenantID(strings.ReplaceAll(uuid.NewString(), "-", ""))
}

// letter returns a dead letter of a tenant, as handlers make it.
func letter(t timer.TenantID, body string) *message.Message {
	m := plain(body)
	m.Metadata.Set(envelope.HeaderType, envelope.TypeDeadLetter)
	m.Metadata.Set(envelope.HeaderTenantID, string(t))
	m.Metadata.Set(envelope.HeaderDeadLetterReason, "malformed")
	m.Metadata.Set(envelope.HeaderDeadLetterOriginalID, uuid.NewString())
	return m
}

// deadLetter publishes dead letters of a tenant, and returns them.
func (w *world) deadLetter(t timer.TenantID, bodies ...string) []*message.Message {
	w.Helper()
	all := make([]*message.Message, len(bodies))
	for i, body := range bodies {
		all[i] = letter(t, body)
	}
	w.publish(w, w.Routing().DeadLettersOf(t), all...)
	return all
}

// keep is a visit that removes nothing.
func keep(*message.Message) (bool, error) { return false, nil }

// visit returns the dead letters of a tenant, and removes a dead letter if remove returns
// true.
func (w *world) visit(n *node, t timer.TenantID, remove func(*message.Message) (bool, error)) (seen []*message.Message) {
	w.Helper()
	if err := n.VisitDeadLetters(w.Context(), t, "", broker.EachDeadLetter(w.Context(), func(m *message.Message) (bool, error) {
		if whose, _ := w.Routing().DeadLetterOf(m.Metadata.Get(broker.MetaTopic), m); t != "" && whose != t {
			return false, nil // the driver can't tell, since tenants share a topic
		}
		seen = append(seen, m)
		return remove(m)
	})); err != nil {
		w.Fatalf("visit the dead letters of %s: %v", t, err)
	}
	return seen
}

// wantBodies fails the test unless the messages have these bodies, in order.
func wantBodies(w *world, what string, got []*message.Message, want ...string) {
	w.Helper()
	bodies := make([]string, len(got))
	for i, m := range got {
		bodies[i] = string(m.Payload)
	}
	if w.features.Reorders {
		want = slices.Sorted(slices.Values(want))
		slices.Sort(bodies)
	}
	if diff := cmp.Diff(want, bodies); diff != "" && len(want)+len(got) > 0 {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func visitsInOrder(w *world) {
	a, b := tenant(), tenant()
	for _, t := range []timer.TenantID{a, b, a + "-1"} {
		if got := w.visit(w.node, t, keep); len(got) > 0 {
			w.Errorf("%d letters of a tenant without any", len(got))
		}
	}
	sent := w.deadLetter(a, "1", "2")
	w.deadLetter(b, "other")
	w.deadLetter(a+"-1", "longer name")
	w.deadLetter(a[:20], "shorter name")
	sent = append(sent, w.deadLetter(a, "3")...)
	w.publish(w, w.Routing().EventsOf(a), plain("an event"))

	got := w.visit(w.node, a, keep)
	wantBodies(w, "the letters of a tenant", got, "1", "2", "3")
	for i, m := range got[:min(len(got), len(sent))] {
		if m.UUID != sent[i].UUID {
			w.Errorf("letter %d has the id %s, want %s", i, m.UUID, sent[i].UUID)
		}
		want := sent[i].Metadata
		want[broker.MetaTopic] = w.Routing().DeadLettersOf(a)
		if m.Metadata.Get(broker.MetaPosition) == "" || i > 0 && m.Metadata.Get(broker.MetaPosition) == got[i-1].Metadata.Get(broker.MetaPosition) {
			w.Errorf("letter %d is at %q", i, m.Metadata.Get(broker.MetaPosition))
		}
		want[broker.MetaPosition] = m.Metadata.Get(broker.MetaPosition)
		delete(m.Metadata, broker.MetaDelivery) // a driver may count
		delete(m.Metadata, broker.MetaSeek)     // or seek
		if diff := cmp.Diff(want, m.Metadata); diff != "" {
			w.Errorf("metadata of letter %d (-want +got):\n%s", i, diff)
		}
	}
	wantBodies(w, "the letters on a second visit", w.visit(w.start(), a, keep), "1", "2", "3")
	wantBodies(w, "the letters of the other tenant", w.visit(w.node, b, keep), "other")
}

func visitRemoves(w *world) {
	a, b := tenant(), tenant()
	w.deadLetter(a, "1", "2", "3", "4", "5")
	w.deadLetter(b, "2")
	seen := w.visit(w.node, a, func(m *message.Message) (bool, error) {
		return slices.Contains([]string{"1", "2", "4"}, string(m.Payload)), nil
	})
	wantBodies(w, "the first visit", seen, "1", "2", "3", "4", "5")
	w.deadLetter(a, "6")
	for _, n := range []*node{w.node, w.start()} {
		wantBodies(w, "what is left", w.visit(n, a, keep), "3", "5", "6")
	}
	wantBodies(w, "the other tenant's", w.visit(w.node, b, keep), "2")
	w.visit(w.node, a, func(*message.Message) (bool, error) { return true, nil })
	wantBodies(w, "when all are removed", w.visit(w.node, a, keep))
}

func visitBegins(w *world) {
	t := tenant()
	w.deadLetter(t, "1", "2", "3", "4")
	var from string
	w.visit(w.node, t, func(m *message.Message) (bool, error) {
		if string(m.Payload) == "3" {
			from = m.Metadata.Get(broker.MetaSeek)
		}
		return false, nil
	})
	if from == "" {
		return // the driver can't seek
	}
	for _, want := range [][]string{{"3", "4"}, {"4"}} { // the second time behind the one that is gone
		var seen []*message.Message
		Must(w, w.VisitDeadLetters(w.Context(), t, from, broker.EachDeadLetter(w.Context(), func(m *message.Message) (bool, error) {
			seen = append(seen, m)
			return string(m.Payload) == "3", nil
		})))
		wantBodies(w, "from "+from, seen, want...)
	}
	wantBodies(w, "what is left", w.visit(w.node, t, keep), "1", "2", "4")
}

func visitEnds(w *world) {
	t := tenant()
	w.deadLetter(t, "1", "2", "3")
	late := 0
	seen := w.visit(w.node, t, func(m *message.Message) (bool, error) {
		late++
		w.deadLetter(t, fmt.Sprint("late ", late))
		return string(m.Payload) == "1", nil
	})
	wantBodies(w, "what was there when the visit began", seen, "1", "2", "3")
	wantBodies(w, "and what came meanwhile", w.visit(w.node, t, keep), "2", "3", "late 1", "late 2", "late 3")
}

func visitFails(w *world) {
	t := tenant()
	w.deadLetter(t, "1", "2", "3")
	enough := errors.New("enough")
	seen := 0
	err := w.VisitDeadLetters(w.Context(), t, "", broker.EachDeadLetter(w.Context(), func(m *message.Message) (bool, error) {
		if seen++; string(m.Payload) == "2" {
			return true, enough // an error removes nothing
		}
		return true, nil
	}))
	if !errors.Is(err, enough) || seen != 2 {
		w.Errorf("an error of visit: %v after %d letters, want it after 2", err, seen)
	}
	wantBodies(w, "after the error", w.visit(w.node, t, keep), "2", "3")

	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	seen = 0
	err = w.VisitDeadLetters(ctx, t, "", broker.EachDeadLetter(ctx, func(*message.Message) (bool, error) {
		seen++
		cancel()
		return false, nil
	}))
	if !errors.Is(err, context.Canceled) || seen != 1 {
		w.Errorf("the end of ctx: %v after %d letters, want it after 1", err, seen)
	}
	if err := w.VisitDeadLetters(ctx, t, "", broker.EachDeadLetter(ctx, keep)); !errors.Is(err, context.Canceled) {
		w.Errorf("ctx that is done: %v", err)
	}
	wantBodies(w, "after the end of ctx", w.visit(w.node, t, keep), "2", "3")
	if w.features.Durable {
		if err := w.server.Broker().VisitDeadLetters(w.Context(), t, "", broker.EachDeadLetter(w.Context(), keep)); err == nil {
			w.Error("a visit through a broker that does not run")
		}
	}
}

func visitAll(w *world) {
	a, b := tenant(), tenant()
	first := w.deadLetter(a, "a 1")
	second := w.deadLetter(b, "b 1")
	third := w.deadLetter(timer.NoTenant, "nobody's")
	fourth := w.deadLetter(a, "a 2")
	if !w.features.AllTenants {
		if err := w.VisitDeadLetters(w.Context(), "", "", broker.EachDeadLetter(w.Context(), keep)); !errors.Is(err, broker.ErrNameTenant) {
			w.Errorf("a visit to all tenants: %v, want ErrNameTenant", err)
		}
	} else {
		var ours []*message.Message
		all := slices.Concat(first, second, third, fourth)
		w.visit(w.node, "", func(m *message.Message) (bool, error) {
			if slices.ContainsFunc(all, func(o *message.Message) bool { return o.UUID == m.UUID }) {
				ours = append(ours, m) // others may use the server too
			}
			return m.UUID == first[0].UUID, nil
		})
		of := func(prefix string) (bodies []string) {
			for _, m := range ours {
				if strings.HasPrefix(string(m.Payload), prefix) {
					bodies = append(bodies, string(m.Payload))
				}
			}
			return bodies
		}
		if len(ours) != 4 || !slices.Equal(of("a"), []string{"a 1", "a 2"}) {
			w.Errorf("visited %d letters, those of one tenant as %q", len(ours), of("a"))
		}
		wantBodies(w, "what is left", w.visit(w.node, a, keep), "a 2")
	}
	var nobodys []*message.Message
	w.visit(w.node, timer.NoTenant, func(m *message.Message) (bool, error) {
		if m.UUID == third[0].UUID {
			nobodys = append(nobodys, m)
		}
		return m.UUID == third[0].UUID, nil
	})
	wantBodies(w, "the dead letters that name no tenant", nobodys, "nobody's")
}

func visitHostile(w *world) {
	t := tenant()
	hostile := []*message.Message{
		letter(t, ""), letter(t, "\xff\xfe\x00"), letter(t, "{"), letter(t, strings.Repeat("x", envelope.MaxBytes)), letter(t, "long header"),
	}
	hostile[4].Metadata.Set("long", strings.Repeat("v", 20_000))
	for i, m := range evil("elsewhere") {
		m.Metadata.Set(envelope.HeaderTenantID, string(t))
		if len(m.UUID) > 0 && len(m.UUID) < 100 && i%3 == 0 {
			hostile = append(hostile, m)
		}
	}
	var want []string
	for _, m := range hostile {
		err := broker.NewWatermillPublisher(w.Publisher()).Publish(w.Routing().DeadLettersOf(t), m)
		if err == nil {
			want = append(want, string(m.Payload))
		} else if !errors.Is(err, broker.ErrRefused) {
			w.Errorf("publish %.20q: %v", m.Payload, err)
		}
	}
	if len(want) < 10 {
		w.Errorf("only %d letters were published", len(want))
	}
	got := w.visit(w.node, t, keep)
	wantBodies(w, "hostile letters", got, want...)
	for i, m := range got {
		if m.UUID == "" {
			w.Errorf("letter %d came without an id", i)
		}
	}
	w.visit(w.node, t, func(*message.Message) (bool, error) { return true, nil })
	wantBodies(w, "when all are removed", w.visit(w.node, t, keep))
}

func visitMany(w *world) {
	n := fewer(1000, 200)
	t := tenant()
	want, odd := make([]string, n), []string(nil)
	for i := range n {
		if want[i] = fmt.Sprint(i); i%2 == 1 {
			odd = append(odd, want[i])
		}
	}
	w.deadLetter(t, want...)
	i := 0
	wantBodies(w, "many letters", w.visit(w.node, t, func(*message.Message) (bool, error) {
		i++
		return i%2 == 1, nil
	}), want...)
	wantBodies(w, "every other one", w.visit(w.node, t, keep), odd...)
}
