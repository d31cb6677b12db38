package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A feed is a subscriber that is fed by hand: a message that is nacked stays so.
type feed chan *message.Message

func (f feed) Subscribe(context.Context, string) (<-chan *message.Message, error) { return f, nil }
func (f feed) Close() error                                                       { return nil }

// deliver returns whether the message was acked.
func (f feed) deliver(m *message.Message) bool {
	f <- m
	select {
	case <-m.Acked():
		return true
	case <-m.Nacked():
		return false
	}
}

// route runs a router with one handler, in a bubble.
func route(
	t *testing.T, handle func(context.Context, timer.DueTimeReached) error, opt client.OnDueOptions, middlewares ...message.HandlerMiddleware,
) feed {
	t.Helper()
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	must(t, err)
	router.AddMiddleware(middlewares...)
	f := make(feed)
	opt.Topic = "service.events"
	client.OnDue(router, f, handle, opt)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.WithoutCancel(t.Context())) }()
	<-router.Running()
	t.Cleanup(func() {
		close(f)
		if err := errors.Join(router.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
	return f
}

func fired(call timer.ServiceCallID) timer.DueTimeReached {
	e := timer.DueTimeReached{
		Key:   timer.Key{TenantID: "acme", ServiceCallID: call},
		DueAt: noon, ReachedAt: noon.Add(time.Millisecond), CorrelationID: "req-7", Data: `{"n": 1}`,
	}
	e.ID = envelope.EventID(e)
	return e
}

func messageOf(e timer.DueTimeReached) *message.Message {
	m := message.NewMessage(e.ID, envelope.Reached(e))
	m.Metadata = envelope.HeadersOf(e)
	return m
}

func TestOnDueHandsOverTheEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []timer.DueTimeReached
		var parents []string
		f := route(t, func(ctx context.Context, e timer.DueTimeReached) error {
			got = append(got, e)
			parents = append(parents, trace.SpanContextFromContext(ctx).TraceID().String())
			return nil
		}, client.OnDueOptions{})
		e := fired("order-1")
		e.Trace = timer.Trace{Parent: "00-01000000000000000000000000000000-0200000000000000-01", State: "a=b"}
		if !f.deliver(messageOf(e)) {
			t.Error("the event was not acked")
		}
		cloud := fired("order-2")
		cloud.Trace = e.Trace
		if !f.deliver(message.NewMessage("x", envelope.Format{CloudEvents: true}.Reached(cloud))) {
			t.Error("the CloudEvent was not acked")
		}
		if diff := cmp.Diff([]timer.DueTimeReached{e, cloud}, got); diff != "" {
			t.Error(diff)
		}
		for _, id := range parents {
			if id != "01000000000000000000000000000000" {
				t.Errorf("the context is of trace %s", id)
			}
		}
	})
}

// A timer that expired is no event for a handler that does not ask for it. The two events of
// a timer have one id: a handler has one of them.
func TestOnDueHandsOverWhatExpiredIfAsked(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var got []timer.State
			f := route(t, func(_ context.Context, e timer.DueTimeReached) error {
				got = append(got, e.State())
				return nil
			}, client.OnDueOptions{Expired: asked})
			e := fired("order-1")
			expired := e
			expired.ExpiresAt, expired.ReachedAt = e.DueAt.Add(time.Second), e.DueAt.Add(time.Minute)
			for _, m := range []*message.Message{messageOf(expired), messageOf(e)} {
				if !f.deliver(m) {
					t.Error("the event was not acked")
				}
			}
			want := timer.Reached
			if asked {
				want = timer.Expired
			}
			if len(got) != 1 || got[0] != want {
				t.Errorf("asked %v: handled %v, want %v alone", asked, got, want)
			}
		})
	}
}

func TestOnDueDropsRepetitionsOnlyAfterSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls int
		var fail error
		f := route(t, func(context.Context, timer.DueTimeReached) error {
			if calls++; calls == 2 {
				panic("the handler is broken")
			}
			return fail
		}, client.OnDueOptions{}, middleware.Recoverer)
		fail = errors.New("not yet")
		for try, acked := range []bool{false, false, true, true} {
			if try == 2 {
				fail = nil
			}
			if got := f.deliver(messageOf(fired("order-1"))); got != acked {
				t.Errorf("delivery %d was acked: %v", try+1, got)
			}
		}
		if calls != 3 {
			t.Errorf("handled %d times, want until it succeeded", calls)
		}
		other := fired("order-1")
		other.ID = "another-generation"
		if f.deliver(messageOf(other)); calls != 4 {
			t.Error("another event of the same key was dropped")
		}
	})
}

func TestARepetitionWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			calls := 0
			f := route(t, func(context.Context, timer.DueTimeReached) error {
				mu.Lock()
				calls++
				first := calls == 1
				mu.Unlock()
				time.Sleep(time.Second)
				if first && fails {
					return errors.New("not yet")
				}
				return nil
			}, client.OnDueOptions{})
			acked := make(chan bool, 2)
			for range 2 {
				m := messageOf(fired("order-1"))
				go func() { acked <- f.deliver(m) }()
				synctest.Wait()
			}
			if len(acked) != 0 {
				t.Error("the repetition was acked before the first was handled")
			}
			if first, second := <-acked, <-acked; first == fails || !second {
				t.Errorf("acked: %v, %v", first, second)
			}
			if want := map[bool]int{false: 1, true: 2}[fails]; calls != want {
				t.Errorf("handled %d times, want %d", calls, want)
			}
		})
	}
}

func TestTheMemoryHasABound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct{ remember, again int }{{10, 80}, {100, 0}, {-1, 100}} {
			calls := 0
			f := route(t, func(context.Context, timer.DueTimeReached) error { calls++; return nil }, client.OnDueOptions{Remember: tt.remember})
			for range 2 {
				calls = 0
				for i := range 100 {
					f.deliver(messageOf(fired(timer.ServiceCallID(fmt.Sprint(i)))))
				}
			}
			if calls < tt.again {
				t.Errorf("of 100 events %d were handled again, with a memory of %d", calls, tt.remember)
			}
			if tt.again == 0 && calls != 0 {
				t.Errorf("of 100 events %d were handled again, with a memory of %d", calls, tt.remember)
			}
		}
	})
}

type txKey struct{}

func TestTheProgramMayRememberInItsOwnTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		done := make(map[string]bool)
		var seen []any
		f := route(t, func(ctx context.Context, _ timer.DueTimeReached) error {
			seen = append(seen, ctx.Value(txKey{}))
			return nil
		}, client.OnDueOptions{Once: func(ctx context.Context, id string, handle func(context.Context) error) error {
			if done[id] {
				return nil
			}
			err := handle(context.WithValue(ctx, txKey{}, "tx of "+id))
			done[id] = err == nil
			return err
		}})
		e := fired("order-1")
		f.deliver(messageOf(e))
		f.deliver(messageOf(e))
		if diff := cmp.Diff([]any{"tx of " + e.ID}, seen); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhatIsNoEventGoesWhereTheProgramSays(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"no JSON":                    "hello",
		"an event without a time":    strings.Replace(string(envelope.Reached(fired("order-1"))), `"dueAt"`, `"due"`, 1),
		"a tenant that is two":       strings.Replace(string(envelope.Reached(fired("order-1"))), `"acme"`, `"other"`, 1),
		"a key twice, which is evil": strings.Replace(string(envelope.Reached(fired("order-1"))), `{`, `{"id":"x",`, 1),
	}
	handle := func(context.Context, timer.DueTimeReached) error {
		t.Error("it was handled")
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		poisoned := new(tray)
		poison, err := middleware.PoisonQueueWithFilter(poisoned, "poison", client.IsInvalid)
		must(t, err)
		var invalid []error
		bare, queued := route(t, handle, client.OnDueOptions{}), route(t, handle, client.OnDueOptions{}, poison)
		sent := route(t, handle, client.OnDueOptions{Invalid: func(m *message.Message, err error) error {
			invalid = append(invalid, err)
			return nil
		}}, poison)
		for name, body := range bodies {
			if bare.deliver(message.NewMessage("id", []byte(body))) {
				t.Errorf("%s: was acked, and is lost", name)
			}
			if !queued.deliver(message.NewMessage("id", []byte(body))) || !sent.deliver(message.NewMessage("id", []byte(body))) {
				t.Errorf("%s: was not acked", name)
			}
		}
		if len(poisoned.messages) != len(bodies) || len(invalid) != len(bodies) || !client.IsInvalid(invalid[0]) {
			t.Errorf("%d in the poison queue, %v for the program", len(poisoned.messages), invalid)
		}
	})
}

func TestOnDueAcksWhatIsNotForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := route(t, func(context.Context, timer.DueTimeReached) error {
			t.Error("it was handled")
			return nil
		}, client.OnDueOptions{})
		command, err := client.Timer{TenantID: "acme", ServiceCallID: "order-1", DueAt: noon}.Command(noon)
		must(t, err)
		scheduled, err := client.Message(command)
		must(t, err)
		for _, m := range []*message.Message{scheduled, message.NewMessage("id", []byte(`{"type":"Other"}`))} {
			if !f.deliver(m) {
				t.Errorf("%s was not acked", m.Payload)
			}
		}
	})
}

func TestByPrefixHandsAnEventToTheLongestPrefix(t *testing.T) {
	t.Parallel()
	handles := make(map[string]func(context.Context, timer.DueTimeReached) error)
	synctest.Test(t, func(t *testing.T) {
		var got []string
		to := func(prefix string) func(context.Context, timer.DueTimeReached) error {
			return func(_ context.Context, e timer.DueTimeReached) error {
				got = append(got, prefix+" has "+string(e.ServiceCallID))
				if e.ServiceCallID == "order-fails" {
					return errors.New("no")
				}
				return nil
			}
		}
		handles["order-"], handles["order-vip-"] = to("order-"), to("order-vip-")
		f := route(t, client.ByPrefix(handles), client.OnDueOptions{})
		for call, acked := range map[timer.ServiceCallID]bool{"order-1": true, "order-vip-1": true, "order-fails": false, "invoice-1": true, "order": true} {
			if f.deliver(messageOf(fired(call))) != acked {
				t.Errorf("acked %s: %v", call, !acked)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"order- has order-1", "order- has order-fails", "order-vip- has order-vip-1"}, got); diff != "" {
			t.Error(diff)
		}
		handles[""] = to("the rest")
		if !f.deliver(messageOf(fired("invoice-2"))) || got[len(got)-1] != "the rest has invoice-2" {
			t.Errorf("%q", got)
		}
	})
	for prefix, handle := range map[string]func(context.Context, timer.DueTimeReached) error{"order ": handles["order-"], "order-": nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the prefix %q does not panic", prefix)
				}
			}()
			client.ByPrefix(map[string]func(context.Context, timer.DueTimeReached) error{prefix: handle})
		}()
	}
}
