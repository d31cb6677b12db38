package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// refusedAlone publishes messages that can never be published among good ones, at
// the beginning, in the middle and at the end of a batch.
func refusedAlone(w *world) {
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	bad := []broker.Message{{Topic: "", Message: plain("no topic")}}
	if w.features.MaxBytes > 0 {
		bad = append(bad, broker.Message{Topic: topic, Message: plain(strings.Repeat("x", w.features.MaxBytes))})
	}
	if w.features.Wildcards {
		bad = append(bad, broker.Message{Topic: "a\r\nPUB x 1", Message: plain("evil topic")})
	}
	var want []string
	for i, at := range []int{0, 1, 50, 99, 100} {
		batch := to(topic, many(100)...)
		for _, m := range batch {
			m.Payload = fmt.Appendf(nil, "%d of batch %d", len(want), i)
			want = append(want, string(m.Payload))
		}
		batch = slices.Insert(batch, at, bad...)
		ctx, cancel := context.WithTimeout(w.Context(), timeout)
		results := w.Publisher().Publish(ctx, batch...)
		cancel()
		if len(results) != len(batch) {
			w.Fatalf("%d results of %d messages", len(results), len(batch))
		}
		for j, err := range results {
			switch refused := j >= at && j < at+len(bad); {
			case refused && (!errors.Is(err, broker.ErrRefused) || !errors.Is(err, timer.ErrInvalid)):
				w.Fatalf("%.20q to %.20q: %v, want ErrRefused", batch[j].Payload, batch[j].Topic, err)
			case !refused && err != nil:
				w.Fatalf("a good one, %d of a batch with bad ones at %d: %v", j, at, err)
			}
		}
	}
	wantOnce(w, drain(w, messages, len(want)), want)
}

// failingAlone publishes to a topic that fails for now among messages to another
// one, until it works again.
func failingAlone(w *world) {
	if w.server.Fail == nil {
		w.Skip("no topic of this test can be made to fail")
	}
	good, failing := w.topic(), w.topic()
	if failing == good {
		failing += "-failing" // the tenant is no part of it
	}
	messages, late := w.subscribe(w, "reader", good), w.subscribe(w, "reader", failing)
	w.publish(w, failing, plain("before")) // which makes the topic, if it must be made
	Next(w, late).Ack()
	restore := w.server.Fail(failing)
	var want []string
	for i := range 5 {
		batch := to(good, many(40)...)
		for _, m := range batch {
			m.Payload = fmt.Appendf(nil, "%d of batch %d", len(want), i)
			want = append(want, string(m.Payload))
		}
		batch = slices.Insert(batch, 20, to(failing, plain("failing"), plain("failing"))...)
		limit := timeout // on a busy machine
		if w.fake {
			limit = 5 * time.Second
		}
		ctx, cancel := context.WithTimeout(w.Context(), limit)
		results := w.Publisher().Publish(ctx, batch...)
		cancel()
		for j, err := range results {
			switch bad := j == 20 || j == 21; {
			case bad && (err == nil || errors.Is(err, broker.ErrRefused) || errors.Is(err, broker.ErrUnavailable)):
				w.Fatalf("to the topic that fails for now: %v, want an error of this topic", err)
			case !bad && err != nil:
				w.Fatalf("to the other topic: %v", err)
			}
		}
	}
	if err := w.Ready(w.Context()); err != nil && errors.Is(err, broker.ErrUnavailable) {
		w.Errorf("the broker is not ready because of one topic: %v", err)
	}
	wantOnce(w, drain(w, messages, len(want)), want)
	restore()
	Await(w, "a topic that works again", func() bool { return w.send(failing, plain("after"))[0] == nil })
	for {
		msg := Next(w, late)
		msg.Ack()
		if string(msg.Payload) == "after" {
			break
		}
	}
	none(w, messages, 50*time.Millisecond) // nothing came twice
}

// wantOnce fails the test unless each body was delivered once.
func wantOnce(w *world, seen map[string]int, bodies []string) {
	w.Helper()
	want := make(map[string]int)
	for _, body := range bodies {
		want[body] = 1
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		w.Errorf("delivered how often (-want +got):\n%s", diff)
	}
}

// settles publishes with contexts that end before, and while, Publish works.
func settles(w *world) {
	n := fewer(3000, 1000)
	topic := w.topic()
	messages := w.subscribe(w, "reader", topic)
	published := make(map[string]bool) // by body
	for i, after := range []time.Duration{-1, 0, time.Millisecond, 10 * time.Millisecond} {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		if after < 0 {
			cancel()
		} else {
			time.AfterFunc(after, cancel)
		}
		batch := to(topic, many(n)...)
		for j, m := range batch {
			m.Payload = fmt.Appendf(nil, "%d of batch %d", j, i)
		}
		began := time.Now()
		results := w.Publisher().Publish(ctx, batch...)
		if waited := time.Since(began); waited > after+timeout {
			w.Errorf("Publish returned %v after it began, with a context of %v", waited, after)
		}
		if len(results) != n {
			w.Fatalf("%d results of %d messages", len(results), n)
		}
		for j, err := range results {
			switch {
			case err == nil:
				published[string(batch[j].Payload)] = true
			case errors.Is(err, broker.ErrRefused):
				w.Fatalf("a good message whose context ended: %v", err)
			}
		}
	}
	w.Logf("%d of %d were published", len(published), 4*n)
	w.publish(w, topic, plain("last"))
	published["last"] = true
	for len(published) > 0 { // what has a nil result comes, others may
		msg := Next(w, messages)
		delete(published, string(msg.Payload))
		msg.Ack()
	}
}

// unavailable publishes with brokers that do not run yet, or no more.
func unavailable(w *world) {
	n := &node{Broker: w.newServer(w).Broker()}
	topic := w.topic()
	check := func(when string) {
		w.Helper()
		began := time.Now()
		results := n.send(topic, many(10)...)
		if len(results) != 10 || time.Since(began) > timeout/2 {
			w.Fatalf("%s: %d results after %v", when, len(results), time.Since(began))
		}
		for _, err := range results {
			if !errors.Is(err, broker.ErrUnavailable) || errors.Is(err, broker.ErrRefused) {
				w.Fatalf("%s: %v, want ErrUnavailable", when, err)
			}
		}
		if n.Ready(w.Context()) == nil {
			w.Errorf("%s: ready", when)
		}
	}
	check("before Run")
	stop := Start(w, n)
	AwaitReady(w, n)
	stop()
	check("after Run")
}
