package nats_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
)

// TestLargeCallsGoOutInBatches wants the header that a batch leaves: in those
// of a large call, unless the stream takes no batches. Clients ask first.
func TestLargeCallsGoOutInBatches(t *testing.T) {
	for _, tt := range []struct {
		messages      int
		allow, client bool
		want          bool
	}{
		{2500, true, false, true}, {400, true, true, true}, {99, true, false, false}, {400, false, false, false}, {400, false, true, false},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := syncing(t)
				_, js := client(t, e)
				stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
					Name: "svc", Subjects: []string{"svc.>", "timer.commands"}, Discard: jetstream.DiscardNew, MaxBytes: 1 << 30, AllowAtomicPublish: tt.allow,
				})
				must(t, err)
				b := ready(t, nats.Options{Server: e, Client: tt.client})
				all := make([]broker.Message, tt.messages)
				for i := range all {
					all[i] = event("acme", nil)
				}
				must(t, broker.Join(b.Publisher().Publish(t.Context(), all...)))
				for i, sent := range all {
					m, err := stream.GetMsg(t.Context(), uint64(i)+1)
					must(t, err)
					if got := m.Header.Get("Nats-Batch-Id") != ""; got != tt.want || m.Header.Get("Nats-Msg-Id") != sent.UUID {
						t.Fatalf("message %d has the headers %v; want a batch: %t", i, m.Header, tt.want)
					}
				}
			})
		})
	}
}
