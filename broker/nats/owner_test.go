package nats_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
)

var mine = broker.Owner{Database: "mine", Broker: "here", Name: "sqlite mine.db"}

func TestOwnerIsNotMadeByWhoOnlyVerifies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		provision(t, e)
		_, js := client(t, e)
		must(t, js.DeleteStream(t.Context(), "svc-owner"))
		b := ready(t, nats.Options{Server: e, Verify: true})
		if _, err := b.Claim(t.Context(), role, mine, false); err == nil || !strings.Contains(err.Error(), "svc-owner") || !strings.Contains(err.Error(), "timer-service provision") {
			t.Errorf("claimed with %v, want an error that names the stream and the verb", err)
		}
		if _, err := js.Stream(t.Context(), "svc-owner"); err == nil {
			t.Error("the stream was made")
		}
	})
}

// TestOwnerIsInNoConsumedSubject claims, and looks where the owner is.
func TestOwnerIsInNoConsumedSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t)
		b := ready(t, nats.Options{Server: e})
		if got, err := b.Claim(t.Context(), role, mine, false); err != nil || got != mine {
			t.Fatalf("the owner is %v, %v", got, err)
		}
		_, js := client(t, e)
		stream, err := js.Stream(t.Context(), "svc-owner")
		must(t, err)
		if info := stream.CachedInfo(); info.State.Msgs != 1 || info.Config.MaxAge != 0 || info.Config.Storage != jetstream.FileStorage {
			t.Errorf("the stream of owners is %+v", info)
		}
		if svc, err := js.Stream(t.Context(), "svc"); err != nil || svc.CachedInfo().State.Msgs != 0 {
			t.Errorf("the stream of messages: %v, %v", svc, err)
		}
	})
}

func TestOwnerAcrossALeafNode(t *testing.T) {
	t.Parallel()
	hubURL, leafURL := leaf(t)
	far, near := ready(t, nats.Options{URL: leafURL, Domain: "hub"}), ready(t, nats.Options{URL: hubURL})
	for _, b := range []*nats.Broker{far, near} {
		if got, err := b.Claim(t.Context(), role, mine, false); err != nil || got != mine {
			t.Errorf("the owner is %v, %v", got, err)
		}
	}
	if got, err := near.Claim(t.Context(), role, broker.Owner{Database: "other"}, false); err != nil || got != mine {
		t.Errorf("another one got %v, %v", got, err)
	}
}
