package nats_test

import (
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
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
		_, err := b.Claim(t.Context(), role, mine, false)
		fails(t, err, "svc-owner", "timer-service provision")
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
		claims(t, b, mine, false, mine)
		_, js := client(t, e)
		if info := streamNamed(t, js, "svc-owner").CachedInfo(); info.State.Msgs != 1 || info.Config.MaxAge != 0 || info.Config.Storage != jetstream.FileStorage {
			t.Errorf("the stream of owners is %+v", info)
		}
		if n := streamOf(t, js).CachedInfo().State.Msgs; n != 0 {
			t.Errorf("the stream of messages has %d", n)
		}
	})
}

func TestOwnerAcrossALeafNode(t *testing.T) {
	t.Parallel()
	hubURL, leafURL := leaf(t)
	far, near := ready(t, nats.Options{URL: leafURL, Domain: "hub"}), ready(t, nats.Options{URL: hubURL})
	claims(t, far, mine, false, mine)
	claims(t, near, mine, false, mine)
	claims(t, near, broker.Owner{Database: "other"}, false, mine)
}

// TestAFasterClaimOnAReplicatedStreamIsRead has another service claim the commands between the
// look-up and the claim. A server whose stream has replicas says so by a code of its own.
func TestAFasterClaimOnAReplicatedStreamIsRead(t *testing.T) {
	t.Parallel()
	s := guarded(t, &server.Options{})
	conn, js := connected(t, s)
	fast, slow := ready(t, nats.Options{URL: s.ClientURL()}), ready(t, nats.Options{URL: s.ClientURL()})
	claims(t, fast, mine, false, mine)
	owners := streamNamed(t, js, "svc-owner")
	must(t, owners.Purge(t.Context()))
	subject, faster := owners.CachedInfo().Config.Subjects[0], broker.Owner{Database: "faster", Broker: "here", Name: "sqlite faster.db"}
	if _, err := conn.Subscribe("contended", func(m *natsgo.Msg) {
		s.GlobalAccount().RemoveMapping(subject)
		claims(t, fast, faster, false, faster)
		must(t, m.Respond([]byte(`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"svc-owner","seq":0}`)))
	}); err != nil {
		t.Fatal(err)
	}
	must(t, conn.Flush())
	must(t, s.GlobalAccount().AddMapping(subject, "contended"))
	claims(t, slow, mine, false, faster)
}
