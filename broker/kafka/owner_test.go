package kafka_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/event-service-agent/timer-service/broker/kafka"
)

// TestOwnerIsWrittenAgain marks the offset that a service wrote, to see when it is written
// again. Kafka forgets the offsets of a group without members after a while, so the service
// writes again after an hour, but not with each claim.
func TestOwnerIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := virtual(t)
		b := ready(t, c.options())
		owns(t, b)
		topic := b.Routing().Commands
		admin, group := kadm.NewClient(client(t, c)), "timer-service."+topic+".owner"
		const mark = 7
		var marked kadm.Offsets
		marked.Add(kadm.Offset{Topic: topic, At: mark, LeaderEpoch: -1, Metadata: mine.String()})
		must(t, admin.CommitAllOffsets(t.Context(), group, marked))
		for _, step := range []struct {
			after time.Duration
			want  int64
		}{{time.Minute, mark}, {time.Hour, 0}} {
			time.Sleep(step.after)
			owns(t, b)
			offsets, err := admin.FetchOffsets(t.Context(), group)
			if o, _ := offsets.Lookup(topic, 0); err != nil || o.At != step.want || o.Metadata != mine.String() {
				t.Errorf("after %v there is %v, %v; want offset %d", step.after, o, err, step.want)
			}
		}
		if _, err := admin.DeleteGroup(t.Context(), group); err != nil {
			t.Fatal(err)
		}
		owns(t, b) // there is no owner now
	})
}

// TestOwnerOnANewCluster claims the commands of a cluster that has no coordinator at first, as
// Kafka answers until it has made the topic of the offsets.
func TestOwnerOnANewCluster(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster, opt kafka.Options) {
		b, stop := start(t, opt)
		defer stop()
		fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: 3})
		owns(t, b)
		if fault.Hits() < 3 {
			t.Errorf("the coordinator was asked for %d times", fault.Hits())
		}
	})
}

// TestForeignMetadataAreNoOwner has an offset at the owner's place that another program committed.
func TestForeignMetadataAreNoOwner(t *testing.T) {
	t.Parallel()
	c := serve(t)
	b := ready(t, c.options())
	var foreign kadm.Offsets
	foreign.Add(kadm.Offset{Topic: b.Routing().Commands, LeaderEpoch: -1, Metadata: "kgo-1f0c"})
	must(t, kadm.NewClient(client(t, c)).CommitAllOffsets(t.Context(), "timer-service."+b.Routing().Commands+".owner", foreign))
	owns(t, b)
}
