package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/brokertest"
	"github.com/event-service-agent/timer-service/broker/kafka"
)

// spread publishes numbers to all partitions of a topic.
func spread(t testing.TB, b *kafka.Broker, topic string, from, to int) {
	t.Helper()
	messages, _ := timers(topic, to)
	must(t, broker.Join(b.Publisher().Publish(t.Context(), messages[from:]...)))
}

// handle subscribes to the commands and acks the next n.
func handle(t testing.TB, b *kafka.Broker, n int) message.Subscriber {
	t.Helper()
	messages, s := subscribe(t, b, b.Routing().Subscription())
	for range n {
		brokertest.Next(t, messages).Ack()
	}
	return s
}

// acked waits until all commands of a topic were acked and committed.
func acked(t testing.TB, b *kafka.Broker, topic string, n int64) {
	t.Helper()
	until(t, "a commit of the commands", func() bool {
		logs, err := b.Logs(t.Context(), "reader")
		must(t, err)
		sum := int64(0)
		for _, l := range logs {
			if l.Kind == broker.Commands && strings.HasPrefix(l.Name, topic) {
				sum += l.Floor
			}
		}
		return sum == n
	})
}

// TestLogsOfCommands acks some of the messages of each partition.
func TestLogsOfCommands(t *testing.T) {
	t.Parallel()
	for _, tenants := range []bool{false, true} {
		t.Run(fmt.Sprint("of tenants: ", tenants), func(t *testing.T) {
			t.Parallel()
			c, r := serve(t), routing()
			if tenants {
				r.Commands = strings.Replace(r.Commands, ".", ".{tenant}.", 1)
			}
			b := ready(t, kafka.Options{URL: c.url(), Routing: r, Partitions: 2})
			logs, err := b.Logs(t.Context(), "reader")
			if want := map[bool]int{false: 2, true: 0}[tenants]; err != nil || len(logs) != want {
				t.Errorf("at first there are %v, %v; want %d", logs, err, want)
			}
			for _, l := range logs {
				if l.Floor != 0 || l.Delivered != 0 || l.Last != 0 || !l.Oldest.IsZero() {
					t.Errorf("an empty log is %+v", l)
				}
			}
			topic := r.CommandsOf("acme")
			began := time.Now().Add(-time.Second)
			spread(t, b, topic, 0, 100)
			s := handle(t, b, 100)
			acked(t, b, topic, 100)
			must(t, s.Close())
			spread(t, b, topic, 100, 150)
			logs, err = b.Logs(t.Context(), "reader")
			if err != nil || len(logs) != 2 {
				t.Fatalf("there are %v, %v", logs, err)
			}
			last := int64(0)
			for _, l := range logs {
				if last += l.Last; l.Delivered != l.Floor || l.Floor == 0 || l.Oldest.Before(began) || time.Since(l.Oldest) < 0 {
					t.Errorf("got %+v", l)
				}
			}
			if last != 150 {
				t.Errorf("the last numbers are %d together", last)
			}
			got := replay(t, b, broker.Commands)
			if diff := cmp.Diff(count(0, 100), merged(got, topic)); diff != "" {
				t.Errorf("replay (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNothingWaitsForCommandsThatAreGone has retention remove commands that were not read.
func TestNothingWaitsForCommandsThatAreGone(t *testing.T) {
	t.Parallel()
	c := serve(t)
	b := ready(t, c.options())
	topic := b.Routing().CommandsOf("acme")
	spread(t, b, topic, 0, 100)
	s := handle(t, b, 100)
	acked(t, b, topic, 100)
	must(t, s.Close())
	spread(t, b, topic, 100, 200)
	logs, err := b.Logs(t.Context(), "reader")
	must(t, err)
	for _, l := range logs {
		if l.Kind == broker.Commands {
			_, number := logOf(l.Name)
			must(t, c.DeleteRecords(topic, number, l.Last))
		}
	}
	handle(t, b, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := b.CatchUp(ctx, "reader"); err != nil {
		t.Error(err)
	}
}

// TestServerThatIsTooOldEndsRun: a topic that was made again could not be told from the
// old one.
func TestServerThatIsTooOldEndsRun(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.MaxVersions(kversion.V3_0_0()))
	err := kafka.New(kafka.Options{URL: c.url()}, quiet).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "older than Kafka 3.1") {
		t.Errorf("Run: %v", err)
	}
}

// TestOwnInstanceIsNotUsedByAnother has a member of our own name in the group, such as
// this process before its restart.
func TestOwnInstanceIsNotUsedByAnother(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	for instance, want := range map[string]bool{"one": false, "two": true} {
		other := ready(t, kafka.Options{URL: c.url(), Routing: r, Instance: "one"})
		_, s := subscribe(t, other, r.Commands)
		until(t, "a member", func() bool {
			groups, err := kadm.NewClient(client(t, c)).DescribeGroups(t.Context(), "reader."+r.Commands)
			return err == nil && groups["reader."+r.Commands].State == "Stable"
		})
		b := ready(t, kafka.Options{URL: c.url(), Routing: r, Instance: instance})
		if used, err := b.Used(t.Context(), "reader"); err != nil || used != want {
			t.Errorf("for instance %s the group is used: %v, %v; want %v", instance, used, err, want)
		}
		must(t, s.Close())
	}
}
