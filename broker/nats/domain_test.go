package nats_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
)

// leaf starts a hub with the JetStream domain "hub", and a leaf node of it with
// the domain "leaf". Who connects with the leaf and names the domain "hub" has
// its stream there. The hub acks in the newer form, which names the domain.
func leaf(t testing.TB) (hubURL, leafURL string) {
	t.Helper()
	hub := guarded(t, &server.Options{
		ServerName: "hub", JetStreamDomain: "hub", FeatureFlags: map[string]bool{server.FeatureFlagJsAckFormatV2: true, server.FeatureFlagJsAPIReplyFormatV2: true},
		LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT},
	})
	remote, err := url.Parse(fmt.Sprintf("nats://127.0.0.1:%d", leafPort(t, hub)))
	must(t, err)
	edge := guarded(t, &server.Options{
		ServerName: "leaf", JetStreamDomain: "leaf",
		LeafNode: server.LeafNodeOpts{ReconnectInterval: 100 * time.Millisecond, Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{remote}}}},
	})
	until(t, "a leaf that is connected", func() bool { return edge.NumLeafNodes() == 1 })
	return hub.ClientURL(), edge.ClientURL()
}

func leafPort(t testing.TB, s *server.Server) int {
	t.Helper()
	info, err := s.Varz(nil)
	must(t, err)
	return info.LeafNode.Port
}

func TestDomainThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	_, leafURL := leaf(t)
	b := run(t, nats.Options{URL: leafURL, Domain: "moon"})
	awaitNotReady(t, b, "$JS.moon.API")
	if err := try(b, topic, message.NewMessage("id", nil)); err == nil {
		t.Error("publish without a stream works")
	}
}

func TestAcksThatNameADomain(t *testing.T) {
	t.Parallel()
	_, leafURL := leaf(t)
	b := ready(t, nats.Options{URL: leafURL, Domain: "hub"})
	messages := subscribe(t, b, "reader", topic)
	publish(t, b, "one")
	(<-messages).Nack()
	msg := <-messages
	if n := msg.Metadata.Get(broker.MetaDelivery); n != "2" {
		t.Errorf("delivery %s, want 2", n)
	}
	msg.Ack()

	conn, _ := dial(t, leafURL)
	js, err := jetstream.NewWithDomain(conn, "hub", answers)
	must(t, err)
	until(t, "the ack", func() bool {
		c, err := js.Consumer(t.Context(), "svc", "reader_svc-acme-serviceCall")
		return err == nil && c.CachedInfo().NumAckPending == 0 && c.CachedInfo().AckFloor.Stream == 1
	})
	raw, err := makeConsumer(t, js, jetstream.ConsumerConfig{}).Next()
	if err != nil || !strings.HasPrefix(raw.Reply(), "$JS.ACK.hub.") {
		t.Errorf("the server wants an ack on %v (%v)", raw, err)
	}
}
