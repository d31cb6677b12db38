package inflight_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

// A listener receives the messages of its channel until that is closed.
type listener struct {
	in     chan *message.Message
	closed bool
}

func (l *listener) Receive(ctx context.Context, send func(*message.Message) bool) {
	for {
		select {
		case msg, ok := <-l.in:
			if !ok || !send(msg) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (l *listener) Close() { l.closed = true }

func TestATailListensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := inflight.NewTerm()
		var all []*listener
		subs := inflight.Tail{Subscriptions: inflight.NewSubscriptions(term), Listen: func(context.Context, string) (inflight.Listener, error) {
			l := &listener{in: make(chan *message.Message)}
			if all = append(all, l); len(all) == 3 {
				return nil, errors.New("not now")
			}
			return l, nil
		}}
		messages, err := subs.Subscribe(t.Context(), "topic")
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{0, 1, 3} {
			if i == 3 {
				time.Sleep(time.Second) // until it has tried again
			}
			synctest.Wait()
			all[i].in <- message.NewMessage(fmt.Sprint(i), nil)
			if msg := <-messages; msg.UUID != fmt.Sprint(i) || msg.Context().Err() != nil {
				t.Errorf("got %s, want %d", msg.UUID, i)
			}
			close(all[i].in)
		}
		synctest.Wait()
		if err := subs.Close(); err != nil {
			t.Error(err)
		}
		if _, open := <-messages; open {
			t.Error("open after Close")
		}
		for i, l := range all {
			if l.closed != (i != 2) {
				t.Errorf("listener %d: closed %v", i, l.closed)
			}
		}
		term.End()
	})
}

func TestATailEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, how := range map[string]func(*inflight.Term, *inflight.Subscriptions, context.CancelFunc){
			"its context":    func(_ *inflight.Term, _ *inflight.Subscriptions, cancel context.CancelFunc) { cancel() },
			"its subscriber": func(_ *inflight.Term, s *inflight.Subscriptions, _ context.CancelFunc) { _ = s.Close() },
			"the term":       func(term *inflight.Term, _ *inflight.Subscriptions, _ context.CancelFunc) { term.End() },
		} {
			term := inflight.NewTerm()
			ctx, cancel := context.WithCancel(t.Context())
			l := &listener{in: make(chan *message.Message)}
			subs := inflight.Tail{Subscriptions: inflight.NewSubscriptions(term), Listen: func(context.Context, string) (inflight.Listener, error) {
				return l, nil
			}}
			messages, err := subs.Subscribe(ctx, "topic")
			if err != nil {
				t.Fatal(err)
			}
			l.in <- message.NewMessage("nobody reads", nil)
			how(term, subs.Subscriptions, cancel)
			synctest.Wait()
			if _, open := <-messages; open || !l.closed {
				t.Errorf("%s ended, and the tail did not", what)
			}
			cancel()
			term.End()
			if _, err := subs.Subscribe(t.Context(), "topic"); !errors.Is(err, inflight.ErrClosed) {
				t.Errorf("a tail after the end: %v", err)
			}
		}
	})
}

func TestATailThatCanNotListenIsAnError(t *testing.T) {
	t.Parallel()
	term := inflight.NewTerm()
	why := errors.New("no connection")
	subs := inflight.Tail{Subscriptions: inflight.NewSubscriptions(term), Listen: func(context.Context, string) (inflight.Listener, error) { return nil, why }}
	if _, err := subs.Subscribe(t.Context(), "topic"); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	_ = subs.Close()
	term.End() // nothing is left that they wait for
}
