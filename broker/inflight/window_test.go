package inflight_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/envelope"
)

// A parcel is a delivery of a server that only notes what it is told.
type parcel struct {
	call, body      string
	stale           atomic.Bool
	acked, returned atomic.Int32
}

func (p *parcel) Topic() string { return "topic" }

func (p *parcel) Header(name string) string {
	switch name {
	case envelope.HeaderTenantID:
		return "acme"
	case envelope.HeaderServiceCallID:
		return p.call
	}
	return ""
}

func (p *parcel) Body() []byte { return []byte(p.body) }

func (p *parcel) Bytes() int { return len(p.body) }

func (p *parcel) Message() *message.Message {
	m := message.NewMessage(p.body, []byte(p.body))
	m.Metadata.Set(envelope.HeaderTenantID, "acme")
	m.Metadata.Set(envelope.HeaderServiceCallID, p.call)
	return m
}

func (p *parcel) Stale() bool { return p.stale.Load() }

func (p *parcel) Ack() { p.acked.Add(1) }

func (p *parcel) Return() { p.returned.Add(1) }

// want fails the test unless the server was told this of the parcel.
func (p *parcel) want(t *testing.T, acked, returned int32) {
	t.Helper()
	if p.acked.Load() != acked || p.returned.Load() != returned {
		t.Errorf("%s: acked %d times, returned %d times, want %d and %d", p.body, p.acked.Load(), p.returned.Load(), acked, returned)
	}
}

// next returns the next message, which must be this.
func next(t *testing.T, w *inflight.Window, body string) *message.Message {
	t.Helper()
	synctest.Wait()
	select {
	case m := <-w.Messages():
		if m == nil || string(m.Payload) != body {
			t.Fatalf("got %v, want %q", m, body)
		}
		return m
	default:
		t.Fatalf("no message, want %q", body)
	}
	return nil
}

// none fails the test if a message waits to be taken.
func none(t *testing.T, w *inflight.Window) {
	t.Helper()
	synctest.Wait()
	select {
	case m := <-w.Messages():
		t.Fatalf("got %v, want nothing", m)
	default:
	}
}

// end closes the window, and waits until nothing is in flight.
func end(w *inflight.Window) {
	w.Close()
	w.Wait(nil)
}

func TestMessagesOfAKeyComeOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inflight.New(t.Context(), inflight.Options{})
		first, second, other := &parcel{call: "1", body: "first"}, &parcel{call: "1", body: "second"}, &parcel{call: "2", body: "other"}
		w.Add(first, 1)
		m := next(t, w, "first")
		if got := m.Metadata.Get(broker.MetaDelivery); got != "1" {
			t.Errorf("delivery %q", got)
		}
		w.Add(second, 1)
		none(t, w)
		w.Add(other, 3)
		o := next(t, w, "other")
		if got := o.Metadata.Get(broker.MetaDelivery); got != "3" {
			t.Errorf("delivery %q, want that of the server", got)
		}
		m.Ack()
		next(t, w, "second").Ack()
		o.Ack()
		end(w)
		for _, p := range []*parcel{first, second, other} {
			p.want(t, 1, 0)
		}
	})
}

func TestOneThatLeavesItsPlaceIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inflight.New(t.Context(), inflight.Options{})
		first, second := &parcel{call: "1", body: "first"}, &parcel{call: "1", body: "second"}
		w.Add(first, 1)
		w.Add(second, 1)
		m := next(t, w, "first")
		envelope.LeavePlace(m.Context())
		next(t, w, "second").Ack()
		m.Ack()
		synctest.Wait()
		if m.Context().Err() == nil {
			t.Error("the context outlives its message")
		}
		end(w)
		first.want(t, 1, 0)
		second.want(t, 1, 0)
	})
}

func TestANackedMessageGivesWayAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inflight.New(t.Context(), inflight.Options{})
		sick, second := &parcel{call: "1", body: "sick"}, &parcel{call: "1", body: "second"}
		w.Add(sick, 1)
		w.Add(second, 1)
		next(t, w, "sick").Nack()
		next(t, w, "second").Ack()
		for i, delay := range []time.Duration{time.Second, 5 * time.Second, 25 * time.Second, 25 * time.Second} {
			began := time.Now()
			m := <-w.Messages()
			if waited := time.Since(began); waited < delay*8/10 || waited > delay*12/10 {
				t.Errorf("delivery %d after %v, want about %v", i+2, waited, delay)
			}
			if got := m.Metadata.Get(broker.MetaDelivery); got != fmt.Sprint(i+2) {
				t.Errorf("delivery %s, want %d", got, i+2)
			}
			sick.want(t, 0, 0)
			m.Nack()
		}
		(<-w.Messages()).Ack()
		end(w)
		sick.want(t, 1, 0)
	})
}

func TestAFullWindowWaits(t *testing.T) {
	for name, opt := range map[string]inflight.Options{"messages": {Messages: 2}, "bytes": {Bytes: 7}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := inflight.New(ctx, opt)
				var added atomic.Int32
				all := make([]*parcel, 5)
				for i := range all {
					all[i] = &parcel{call: fmt.Sprint(i), body: fmt.Sprintf("%04d", i)}
				}
				stopped := make(chan struct{})
				go func() {
					defer close(stopped)
					for _, p := range all {
						if w.Add(p, 1) {
							added.Add(1)
						}
					}
				}()
				m := <-w.Messages()
				synctest.Wait()
				if added.Load() != 2 {
					t.Fatalf("%d were added, want 2", added.Load())
				}
				m.Nack() // which makes no room: it waits for its next delivery
				synctest.Wait()
				if added.Load() != 2 {
					t.Fatalf("%d were added after a nack, want 2", added.Load())
				}
				(<-w.Messages()).Ack()
				synctest.Wait()
				if added.Load() != 3 {
					t.Fatalf("%d were added after an ack, want 3", added.Load())
				}
				cancel()
				<-stopped
				end(w)
				acked := 0
				for _, p := range all {
					if p.acked.Load() == 1 {
						acked++
						p.want(t, 1, 0)
					} else {
						p.want(t, 0, 1)
					}
				}
				if acked != 1 {
					t.Errorf("%d were acked, want 1", acked)
				}
			})
		})
	}
}

func TestCloseReturnsWhatNoHandlerHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inflight.New(t.Context(), inflight.Options{})
		had, behind, waits, nacked, late := &parcel{call: "1", body: "had"}, &parcel{call: "1", body: "behind"},
			&parcel{call: "2", body: "waits"}, &parcel{call: "3", body: "nacked"}, &parcel{call: "4", body: "late"}
		w.Add(had, 1)
		m := next(t, w, "had")
		w.Add(nacked, 1)
		next(t, w, "nacked").Nack()
		w.Add(behind, 1)
		w.Add(waits, 1)
		w.Close()
		w.Close()
		if m, open := <-w.Messages(); open {
			t.Errorf("got %s after Close", m.Payload)
		}
		if w.Add(late, 1) {
			t.Error("Add works after Close")
		}
		synctest.Wait()
		waits.want(t, 0, 1)
		nacked.want(t, 0, 1)
		late.want(t, 0, 1)
		had.want(t, 0, 0)
		m.Ack()
		w.Wait(nil)
		had.want(t, 1, 0)
		behind.want(t, 0, 1)
	})
}

func TestWaitGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inflight.New(t.Context(), inflight.Options{})
		p := &parcel{call: "1", body: "forgotten"}
		w.Add(p, 1)
		m := next(t, w, "forgotten")
		w.Close()
		stop := make(chan struct{})
		close(stop)
		w.Wait(stop)
		synctest.Wait()
		m.Ack()
		synctest.Wait()
		p.want(t, 0, 0)
	})
}

// TestWhatWasAckedBeforeTheEndIsAcked stops to wait at once after many acks. A
// driver that has waited tells its server what was acked, for the last time.
func TestWhatWasAckedBeforeTheEndIsAcked(t *testing.T) {
	t.Parallel()
	const n = 1000
	w := inflight.New(t.Context(), inflight.Options{})
	all := make([]*parcel, n)
	for i := range all {
		all[i] = &parcel{call: fmt.Sprint(i), body: fmt.Sprint(i)}
		w.Add(all[i], 1)
	}
	taken := make([]*message.Message, n)
	for i := range taken {
		taken[i] = <-w.Messages()
	}
	w.Close()
	stop := make(chan struct{})
	close(stop)
	for _, m := range taken {
		m.Ack()
	}
	w.Wait(stop)
	for _, p := range all {
		p.want(t, 1, 0)
	}
}

func TestStaleMessagesAreNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inflight.New(t.Context(), inflight.Options{Messages: 2})
		first, second, third := &parcel{call: "1", body: "first"}, &parcel{call: "1", body: "second"}, &parcel{call: "1", body: "third"}
		w.Add(first, 1)
		w.Add(second, 1)
		m := next(t, w, "first")
		second.stale.Store(true)
		m.Ack()
		w.Add(third, 1) // there is room
		next(t, w, "third").Ack()
		end(w)
		second.want(t, 0, 0)
	})
}

func TestOffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offers []envelope.Offer
		w := inflight.New(t.Context(), inflight.Options{Messages: 3, Take: func(o envelope.Offer) bool {
			if strings.HasPrefix(string(o.Body()), "not") {
				return false
			}
			offers = append(offers, o)
			return true
		}})
		acked, passed, not := &parcel{call: "1", body: "acked"}, &parcel{call: "1", body: "passed"}, &parcel{call: "1", body: "not taken"}
		for _, p := range []*parcel{acked, passed, not} {
			w.Add(p, 1)
		}
		next(t, w, "not taken").Ack()
		if len(offers) != 2 || offers[0].Topic() != "topic" || offers[0].Header(envelope.HeaderServiceCallID) != "1" {
			t.Fatalf("offers: %v", offers)
		}
		offers[0].Ack()
		acked.want(t, 1, 0)
		offers[1].Pass()
		next(t, w, "passed").Ack()

		after, back := &parcel{call: "1", body: "acked after the end"}, &parcel{call: "1", body: "passed after the end"}
		w.Add(after, 1)
		w.Add(back, 1)
		w.Close()
		offers[2].Ack()
		offers[3].Pass()
		w.Wait(nil)
		after.want(t, 1, 0)
		back.want(t, 0, 1)
		passed.want(t, 1, 0)
	})
}

// TestNothingIsForgotten adds, acks, nacks and closes at once: every message is
// acked or returned, once.
func TestNothingIsForgotten(t *testing.T) {
	t.Parallel()
	w := inflight.New(t.Context(), inflight.Options{Messages: 50, Take: func(o envelope.Offer) bool {
		switch len(o.Body()) % 3 {
		case 0:
			return false
		case 1:
			go o.Ack()
		default:
			o.Pass()
		}
		return true
	}})
	var all []*parcel
	for i := range 3000 {
		all = append(all, &parcel{call: fmt.Sprint(i % 70), body: strings.Repeat("x", i%100)})
	}
	var work sync.WaitGroup
	for some := range slices.Chunk(all, 1000) {
		work.Go(func() {
			for _, p := range some {
				w.Add(p, 1)
			}
		})
	}
	for i := range 4 {
		work.Go(func() {
			n := 0
			for m := range w.Messages() {
				if n++; n == 100 {
					w.Close()
				}
				if (n+i)%5 == 0 {
					m.Nack()
				} else {
					m.Ack()
				}
			}
		})
	}
	work.Wait()
	w.Wait(nil)
	for i, p := range all {
		if got := p.acked.Load() + p.returned.Load(); got != 1 {
			t.Errorf("message %d: acked %d times, returned %d times", i, p.acked.Load(), p.returned.Load())
		}
	}
}
