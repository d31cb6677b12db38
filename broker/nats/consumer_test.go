package nats

import (
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestConsumersThatCouldLoseAreNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		says   string // part of the error; empty if it is fit
		change func(*jetstream.ConsumerConfig)
	}{
		{"", func(*jetstream.ConsumerConfig) {}},
		{"", func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 0 }},
		{"", func(c *jetstream.ConsumerConfig) { c.MaxAckPending = -1 }},
		{"", func(c *jetstream.ConsumerConfig) { c.AckWait = time.Hour }},
		{"", func(c *jetstream.ConsumerConfig) { c.FilterSubject, c.FilterSubjects = "", []string{"timer.commands"} }},
		{"max_deliver", func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 3 }},
		{"ack_policy", func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy }},
		{"ack_policy", func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy }},
		{"filter_subject", func(c *jetstream.ConsumerConfig) { c.FilterSubject = "" }},
		{"filter_subject", func(c *jetstream.ConsumerConfig) { c.FilterSubject = "timer.*" }},
		{"filter_subject", func(c *jetstream.ConsumerConfig) {
			c.FilterSubject, c.FilterSubjects = "", []string{"timer.commands", "svc.>"}
		}},
		{"deliver_policy", func(c *jetstream.ConsumerConfig) { c.DeliverPolicy = jetstream.DeliverNewPolicy }},
		{"inactive_threshold", func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour }},
		{"mem_storage", func(c *jetstream.ConsumerConfig) { c.MemoryStorage = true }},
		{"max_ack_pending", func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1 }},
		{"backoff", func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{time.Second} }},
		{"ack_wait", func(c *jetstream.ConsumerConfig) { c.AckWait = time.Second }},
		{"headers_only", func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }},
		{"deliver_subject", func(c *jetstream.ConsumerConfig) { c.DeliverSubject = "a" }},
		{"replay_policy", func(c *jetstream.ConsumerConfig) { c.ReplayPolicy = jetstream.ReplayOriginalPolicy }},
		{"priority_policy", func(c *jetstream.ConsumerConfig) { c.PriorityPolicy = jetstream.PriorityPolicyPinned }},
		{"max_batch", func(c *jetstream.ConsumerConfig) { c.MaxRequestBatch = 100 }},
		{"max_expires", func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires = time.Second }},
		{"max_bytes", func(c *jetstream.ConsumerConfig) { c.MaxRequestMaxBytes = 1 << 20 }},
		{"max_waiting", func(c *jetstream.ConsumerConfig) { c.MaxWaiting = 1 }},
	} {
		want := consumerConfig("name", "timer.commands")
		c := want
		tt.change(&c)
		err := verifyConsumer(c, want)
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), "consumer name: "+tt.says)) {
			t.Errorf("got %v, want %q", err, tt.says)
		}
	}
}

func TestVersionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for version, good := range map[string]bool{
		"2.9.0": true, "2.9.10": true, "2.15.2": true, "2.10.0-beta.1": true, "3.0.0": true, "v2.12.1": true, "10.0": true,
		"": true, "main": true, "a.b.c": true, // nothing is guessed of what it does not tell
		"2.8.4": false, "2.0.0": false, "1.4.1": false, "v2.8.0": false,
	} {
		if err := modern(version); (err == nil) != good {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// TestAckSubjects reads what servers say of a message: the older form, and the
// newer one with a domain and an account, see the NATS ADR-15.
func TestAckSubjects(t *testing.T) {
	t.Parallel()
	for reply, good := range map[string]bool{
		"$JS.ACK.svc.reader.3.22.10.1700000000000000000.5":             true,
		"$JS.ACK.hub.ABC.svc.reader.3.22.10.1700000000000000000.5":     true,
		"$JS.ACK._.ABC.svc.reader.3.22.10.1700000000000000000.5.RaNdM": true,
		"$JS.ACK.svc.reader.3.22":                                      false,
		"$JS.ACK.":                                                     false,
		"":                                                             false,
	} {
		in := &natsgo.Msg{Subject: "a", Reply: reply, Sub: new(natsgo.Subscription)}
		d, err := new(subscription).newDelivery(in)
		if good && err != nil || !good && err == nil {
			t.Errorf("%s: %v", reply, err)
		}
		if good && err == nil && (d.number != 3 || d.sequence != 22 || d.stored != 1_700_000_000_000_000_000) {
			t.Errorf("%s: number %d, sequence %d, stored %d", reply, d.number, d.sequence, d.stored)
		}
		if good && !fromStream(in) {
			t.Errorf("%s is taken for what the server has to say", reply)
		}
	}
}
