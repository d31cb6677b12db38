package kafka_test

import (
	"cmp"
	"context"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/internal/longtest"
)

// server is the address of a Kafka outside of this process; empty if there is none.
var server = os.Getenv("TIMER_TEST_KAFKA")

// serve returns the Kafka that the environment names, or starts one in this process. Tests
// use topics of their own, and leave them there.
func serve(t testing.TB) *cluster {
	t.Helper()
	if server == "" {
		return fake(t)
	}
	return &cluster{t: t}
}

// needsServer skips a test that is for a Kafka outside of this process.
func needsServer(t testing.TB) {
	t.Helper()
	switch {
	case server != "":
	case os.Getenv("TIMER_TEST_REQUIRE") != "":
		t.Fatal("TIMER_TEST_KAFKA is not set")
	default:
		t.Skip("SKIPPED: set TIMER_TEST_KAFKA to the address of a Kafka, such as 127.0.0.1:9092, to test against it")
	}
}

func onServer(t testing.TB) brokertest.Server { return serve(t).server() }

// serverFeatures are those of Kafka itself.
func serverFeatures() brokertest.Features {
	f := features
	f.FakeTime = false
	f.MaxBytes = 1 << 20 // kfake takes twice as much
	return f
}

func TestContractOnAServer(t *testing.T) {
	t.Parallel()
	needsServer(t)
	brokertest.Run(t, serverFeatures(), onServer)
}

func TestWatermillOnAServer(t *testing.T) {
	longtest.NotShort(t)
	needsServer(t)
	brokertest.Watermill(t, serverFeatures(), onServer)
}

func TestTopicThatIsMadeAgainOnAServerIsRead(t *testing.T) {
	t.Parallel()
	needsServer(t)
	readsTopicThatIsMadeAgain(t, serve(t))
}

// asked calls f with a client of the cluster.
func (c *cluster) asked(f func(context.Context, *kadm.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return f(ctx, kadm.NewClient(client(c.t, c)))
}

// CreateTopic makes a topic, and waits until the cluster knows it.
func (c *cluster) CreateTopic(topic string, partitions int32, settings map[string]string) error {
	return c.asked(func(ctx context.Context, admin *kadm.Client) error {
		values := make(map[string]*string)
		for name, value := range settings {
			values[name] = &value
		}
		if _, err := admin.CreateTopic(ctx, partitions, -1, values, topic); err != nil {
			return err
		}
		until(c.t, "a topic that is known", func() bool {
			found, err := admin.ListTopics(kadm.WithAuthorizedOps(ctx), topic)
			return err == nil && len(found[topic].Partitions.Numbers()) == int(partitions) && found.Error() == nil
		})
		return nil
	})
}

// DeleteTopic deletes a topic.
func (c *cluster) DeleteTopic(topic string) error {
	return c.asked(func(ctx context.Context, admin *kadm.Client) error {
		_, err := admin.DeleteTopic(ctx, topic)
		return err
	})
}

// DeleteRecords deletes the records of a partition below an offset.
func (c *cluster) DeleteRecords(topic string, number int32, below int64) error {
	return c.asked(func(ctx context.Context, admin *kadm.Client) error {
		var offsets kadm.Offsets
		offsets.AddOffset(topic, number, below, -1)
		deleted, err := admin.DeleteRecords(ctx, offsets)
		return cmp.Or(err, deleted.Error())
	})
}

// records returns how many records a topic has, of which none were deleted.
func (c *cluster) records(topic string) (n int) {
	must(c.t, c.asked(func(ctx context.Context, admin *kadm.Client) error {
		ends, err := admin.ListEndOffsets(ctx, topic)
		ends.Each(func(end kadm.ListedOffset) { n += int(end.Offset) })
		return err
	}))
	return n
}
