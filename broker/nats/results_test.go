package nats_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
)

// event returns a message of a tenant.
func event(tenant string, body []byte) broker.Message {
	return broker.Message{Topic: "svc." + tenant + ".serviceCall", Message: message.NewMessage(uuid.NewString(), body)}
}

// TestOneRefusedMessageFailsAlone has one message of a call be too large for the
// server, for the stream, or without a valid subject: alone, among a few, and in
// what would be an atomic batch.
func TestOneRefusedMessageFailsAlone(t *testing.T) {
	for _, n := range []int{1, 10, 1500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := syncing(t)
				b := ready(t, nats.Options{Server: e})
				_, js := client(t, e)
				stream := streamOf(t, js)
				config := stream.CachedInfo().Config
				config.MaxMsgSize = 100_000
				if _, err := js.UpdateStream(t.Context(), config); err != nil {
					t.Fatal(err)
				}
				stored := uint64(0)
				for _, bad := range []broker.Message{
					event("acme", make([]byte, 2<<20)), event("acme", make([]byte, 200_000)), event("a b", nil), event("*", nil),
				} {
					var all []broker.Message
					for range n - 1 {
						all = append(all, event("beta", nil))
					}
					at := len(all) / 2
					all = append(all[:at:at], append([]broker.Message{bad}, all[at:]...)...)
					stored += uint64(n - 1)
					for i, err := range b.Publisher().Publish(t.Context(), all...) {
						if i == at && !errors.Is(err, broker.ErrRefused) || i != at && err != nil {
							t.Fatalf("message %d of %d, of which %d is bad: %v", i, n, at, err)
						}
					}
				}
				stream = streamOf(t, js)
				if got := stream.CachedInfo().State.Msgs; got != stored {
					t.Errorf("%d messages are stored, want %d", got, stored)
				}
			})
		})
	}
}

// TestOneDeniedSubjectFailsAlone has the server deny one tenant's subject.
func TestOneDeniedSubjectFailsAlone(t *testing.T) {
	t.Parallel()
	service := user(provisioned(t, 0), "service")
	service.Verify = true
	b := ready(t, service)
	for _, n := range []int{1, 10, 300} {
		var all []broker.Message
		for i := range n {
			m := event("acme", nil)
			if i == n/2 {
				m.Topic = "svc.acme.other" // which is not on the list
			}
			all = append(all, m)
		}
		began := time.Now()
		for i, err := range b.Publisher().Publish(t.Context(), all...) {
			if i == n/2 && (!errors.Is(err, natsgo.ErrPermissionViolation) || errors.Is(err, broker.ErrRefused)) || i != n/2 && err != nil {
				t.Errorf("message %d of %d: %v", i, n, err)
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%d messages took %v", n, took)
		}
	}
	if err := b.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPublishIsSettledWhenItsContextEnds publishes to a server that does not
// answer.
func TestPublishIsSettledWhenItsContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := between(t, syncing(t))
		b := ready(t, nats.Options{Connect: []natsgo.Option{natsgo.InProcessServer(p)}})
		cut(p)
		for _, n := range []int{1, 1500} {
			all := make([]broker.Message, n)
			for i := range all {
				all[i] = event("acme", nil)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			began := time.Now()
			for i, err := range b.Publisher().Publish(ctx, all...) {
				if err == nil || errors.Is(err, broker.ErrRefused) || !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("message %d of %d: %v", i, n, err)
				}
			}
			cancel()
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%d messages took %v", n, took)
			}
		}
		until(t, "a connection that is found dead", func() bool { return b.Ready(t.Context()) != nil })
		p.Pass()
		until(t, "a new connection", func() bool { return b.Ready(t.Context()) == nil })
		publish(t, b, "again")
	})
}
