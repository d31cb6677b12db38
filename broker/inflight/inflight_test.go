package inflight_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/components/delay"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
)

// A delivery counts the calls of the window.
type delivery struct {
	body            string
	stale           atomic.Bool
	acked, returned atomic.Int32
}

func (d *delivery) Bytes() int { return len(d.body) }

func (d *delivery) Message() *message.Message {
	msg := message.NewMessage(d.body, []byte(d.body))
	if d.body == "forged" {
		delay.Message(msg, delay.For(time.Hour))
	}
	return msg
}

func (d *delivery) Stale() bool { return d.stale.Load() }

func (d *delivery) Ack() { d.acked.Add(1) }

func (d *delivery) Return() { d.returned.Add(1) }

// want fails the test unless the delivery was acked and returned the given number of times.
func (d *delivery) want(t *testing.T, acked, returned int32) {
	t.Helper()
	if d.acked.Load() != acked || d.returned.Load() != returned {
		t.Errorf("%s: acked %d times, returned %d times, want %d and %d", d.body, d.acked.Load(), d.returned.Load(), acked, returned)
	}
}

// open opens the window of a subscription that ctx ends.
func open(ctx context.Context, t *testing.T, opt inflight.Options) *inflight.Window {
	t.Helper()
	w, err := inflight.NewSubscriptions(inflight.NewTerm()).Open(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// add adds deliveries one after the other and returns a channel that is closed
// when all are added or refused.
func add(w *inflight.Window, all ...*delivery) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, d := range all {
			w.Add(d, 1)
		}
	}()
	return done
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

// settle waits until acks and nacks are noticed, while an older message is at work.
func settle() {
	time.Sleep(40 * time.Millisecond)
	synctest.Wait()
}

// end closes the window, and waits until nothing is in flight.
func end(w *inflight.Window) {
	w.Close()
	w.Drain(0, 0, nil)
}

func TestSettledIsAboutWhatWasInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t.Context(), t, inflight.Options{})
		if !w.Settled()() {
			t.Error("nothing is in flight, and not settled")
		}
		added := add(w, &delivery{body: "acked"}, &delivery{body: "nacked"}, &delivery{body: "waits"})
		<-added
		settled := w.Settled()
		<-add(w, &delivery{body: "later"})
		for _, body := range []string{"acked", "nacked", "waits"} {
			if settle(); settled() {
				t.Errorf("settled before %q was", body)
			}
			if m := next(t, w, body); body == "nacked" {
				m.Nack()
			} else {
				m.Ack()
			}
		}
		if settle(); !settled() || w.Settled()() {
			t.Errorf("settled is %v, and with what came later %v, want true and false", settled(), w.Settled()())
		}
		later := w.Settled()
		end(w)
		if !later() {
			t.Error("what Close returns is not settled")
		}
	})
}

func TestAFullWindowWaits(t *testing.T) {
	for name, opt := range map[string]inflight.Options{"messages": {Messages: 2}, "bytes": {Bytes: 11}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := open(ctx, t, opt)
				all := make([]*delivery, 6)
				for i := range all {
					all[i] = &delivery{body: fmt.Sprintf("%04d", i)}
				}
				stopped := add(w, all...)
				first := next(t, w, "0000")
				second := next(t, w, "0001")
				none(t, w)
				first.Ack()
				next(t, w, "0002").Nack() // which is held, and keeps its slot
				settle()
				none(t, w)
				second.Ack()
				third := next(t, w, "0003")
				settle()
				none(t, w)
				time.Sleep(2 * time.Second)
				next(t, w, "0002").Ack() // again
				third.Ack()
				next(t, w, "0004")
				cancel()
				<-stopped
				w.Close()
				w.Drain(0, 0, stopped)
				for i, want := range [][2]int32{{1, 0}, {1, 0}, {1, 0}, {1, 0}, {0, 0}, {0, 1}} {
					all[i].want(t, want[0], want[1])
				}
			})
		})
	}
}

func TestANackedMessageComesAgainAndDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t.Context(), t, inflight.Options{})
		nacked := &delivery{body: "nacked"}
		<-add(w, nacked)
		msg := next(t, w, "nacked")
		for i, delay := range []time.Duration{time.Second, 5 * time.Second, 25 * time.Second, 25 * time.Second, 25 * time.Second} {
			if got, want := msg.Metadata.Get(broker.MetaDelivery), strconv.Itoa(i+1); got != want {
				t.Errorf("delivery %s, want %s", got, want)
			}
			began := time.Now()
			msg.Nack()
			if <-msg.Context().Done(); time.Since(began) > 0 {
				t.Error("the context ended late")
			}
			<-add(w, &delivery{body: "other"})
			next(t, w, "other").Ack()
			msg = <-w.Messages()
			if got := time.Since(began); string(msg.Payload) != "nacked" || got < delay*8/10 || got > delay*12/10 {
				t.Errorf("%s came after %v, want %v", msg.Payload, got, delay)
			}
		}
		msg.Ack()
		settle()
		nacked.want(t, 1, 0)
		end(w)
	})
}

// TestAHeldMessageIsReturnedAsItsServerWants has a server that redelivers a message that is
// unacked for 10 s.
func TestAHeldMessageIsReturnedAsItsServerWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t.Context(), t, inflight.Options{Messages: 2, Hold: 10 * time.Second})
		first, often := &delivery{body: "first"}, &delivery{body: "often"}
		w.Add(first, 1)
		w.Add(often, 7)
		next(t, w, "first").Nack()
		next(t, w, "often").Nack()
		time.Sleep(2 * time.Second)
		first.want(t, 0, 1)
		often.want(t, 0, 0)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		often.want(t, 0, 1)
		<-add(w, &delivery{body: "more"}, &delivery{body: "yet more"}) // the slots are free
		end(w)
	})
}

// TestAMessageIsWantedLater by one that the window may leave to the server, and by a producer.
func TestAMessageIsWantedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var later []time.Duration
		w := open(t.Context(), t, inflight.Options{Messages: 1, Later: func(_ inflight.Delivery, after time.Duration) { later = append(later, after) }})
		<-add(w, &delivery{body: "wanted later"})
		msg := next(t, w, "wanted later")
		delay.Message(msg, delay.For(90*time.Minute))
		msg.Nack()
		<-add(w, &delivery{body: "forged"}) // the slot is free
		next(t, w, "forged").Nack()
		time.Sleep(2 * time.Second)
		next(t, w, "forged").Ack()
		if len(later) != 1 || later[0] != 90*time.Minute {
			t.Errorf("%v", later)
		}
		end(w)
	})
}

func TestAMessageLargerThanTheWindowIsAloneInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t.Context(), t, inflight.Options{Bytes: 4})
		add(w, &delivery{body: "large message"}, &delivery{body: "x"})
		large := next(t, w, "large message")
		none(t, w)
		large.Ack()
		next(t, w, "x").Ack()
		end(w)
	})
}

func TestCloseReturnsWhatNoHandlerHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t.Context(), t, inflight.Options{})
		had, waits, nacked, late, after := &delivery{body: "had"}, &delivery{body: "waits"},
			&delivery{body: "nacked"}, &delivery{body: "late"}, &delivery{body: "nacked after the end"}
		add(w, had, nacked, after, waits)
		m := next(t, w, "had")
		next(t, w, "nacked").Nack()
		again := next(t, w, "nacked after the end")
		synctest.Wait()
		w.Close()
		w.Close()
		if m, open := <-w.Messages(); open {
			t.Errorf("got %s after Close", m.Payload)
		}
		if w.Add(late, 1) {
			t.Error("Add works after Close")
		}
		settle()
		waits.want(t, 0, 1)
		nacked.want(t, 0, 1)
		late.want(t, 0, 1)
		had.want(t, 0, 0)
		m.Ack()
		again.Nack()
		w.Drain(0, 0, nil)
		had.want(t, 1, 0)
		after.want(t, 0, 1)
	})
}

// TestWhatWasAckedBeforeTheEndIsAcked stops to wait at once after many acks. A
// driver that has waited sends its server the acks, for the last time.
func TestWhatWasAckedBeforeTheEndIsAcked(t *testing.T) {
	t.Parallel()
	const n = 1000
	w := open(t.Context(), t, inflight.Options{})
	all := make([]*delivery, n)
	for i := range all {
		all[i] = &delivery{body: fmt.Sprint(i)}
	}
	add(w, all...)
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
	w.Drain(0, 0, stop)
	for _, d := range all {
		d.want(t, 1, 0)
	}
}

func TestStaleMessagesAreNeitherDeliveredNorReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t.Context(), t, inflight.Options{Messages: 1})
		first, second, third, fourth := &delivery{body: "first"}, &delivery{body: "second"}, &delivery{body: "third"}, &delivery{body: "fourth"}
		second.stale.Store(true)
		add(w, first, second, third)
		next(t, w, "first").Nack()
		time.Sleep(1500 * time.Millisecond)
		next(t, w, "first").Nack()
		synctest.Wait()
		first.stale.Store(true)
		time.Sleep(time.Second) // its slot is free long before its retry
		synctest.Wait()
		next(t, w, "third").Ack()
		time.Sleep(time.Minute)
		none(t, w)
		<-add(w, fourth)
		fourth.stale.Store(true)
		end(w)
		for _, d := range []*delivery{first, second, fourth} {
			d.want(t, 0, 0)
		}
	})
}

// TestNothingIsLostBetweenAddAndClose adds, acks, nacks and closes at once: every
// message is acked, returned or left to the server, once.
func TestNothingIsLostBetweenAddAndClose(t *testing.T) {
	t.Parallel()
	const most = 50
	w := open(t.Context(), t, inflight.Options{Messages: most})
	all := make([]*delivery, 3000)
	for i := range all {
		all[i] = &delivery{body: strings.Repeat("x", i%100)}
	}
	var work sync.WaitGroup
	for some := range slices.Chunk(all, 1000) {
		work.Go(func() {
			for _, d := range some {
				w.Add(d, 1)
			}
		})
	}
	var inFlight atomic.Int32
	for i := range 4 {
		work.Go(func() {
			n := 0
			for m := range w.Messages() {
				if now := inFlight.Add(1); now > most {
					t.Errorf("%d in flight", now)
				}
				if n++; n == 100 {
					go w.Close()
				}
				inFlight.Add(-1)
				if (n+i)%5 == 0 {
					m.Nack()
				} else {
					m.Ack()
				}
			}
		})
	}
	work.Wait()
	w.Drain(0, 0, nil)
	for i, d := range all {
		if got := d.acked.Load() + d.returned.Load(); got != 1 {
			t.Errorf("message %d: acked %d times, returned %d times", i, d.acked.Load(), d.returned.Load())
		}
	}
}
