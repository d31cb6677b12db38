package kafkanode_test

import (
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/verify/internal/kafkanode"
)

// TestRecordsOutliveANode kills the only node after a record was acked, and starts it again.
func TestRecordsOutliveANode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Kafka twice: not with -short")
	}
	if !kafkanode.Installed() {
		if os.Getenv("TIMER_TEST_REQUIRE") != "" {
			t.Fatal(kafkanode.ErrNotInstalled)
		}
		t.Skip("SKIPPED: ", kafkanode.ErrNotInstalled)
	}
	t.Parallel()
	c, err := kafkanode.Start(t.Context(), t.TempDir(), kafkanode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.URL()), kgo.ConsumeTopics("topic"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, -1, nil, "topic"); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "topic", Value: []byte("hello")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.Kill()
	if err := c.Nodes()[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		if got := client.PollFetches(t.Context()).Records(); len(got) > 0 {
			if len(got) != 1 || string(got[0].Value) != "hello" {
				t.Errorf("read %v", got)
			}
			return
		}
	}
}
