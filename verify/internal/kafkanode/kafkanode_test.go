package kafkanode_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/verify/internal/harness"
	"github.com/event-service-agent/timer-service/verify/internal/kafkanode"
)

// TestRecordsOutliveANode kills the only node after a record was acked, and starts it again.
func TestRecordsOutliveANode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Kafka twice: not with -short")
	}
	t.Parallel()
	c, err := kafkanode.Start(t.Context(), t.TempDir(), kafkanode.Options{})
	harness.Need(t, err)
	t.Cleanup(c.Kill)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.URL()), kgo.ConsumeTopics("topic"))
	harness.Must(t, err)
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), 1, -1, nil, "topic")
	harness.Must(t, err)
	harness.Must(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "topic", Value: []byte("hello")}).FirstErr())
	c.Kill()
	harness.Must(t, c.Nodes()[0].Start(t.Context()))
	for {
		if got := client.PollFetches(t.Context()).Records(); len(got) > 0 {
			if len(got) != 1 || string(got[0].Value) != "hello" {
				t.Errorf("read %v", got)
			}
			return
		}
	}
}
