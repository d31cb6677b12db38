package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/event-service-agent/timer-service/broker/kafka"
)

// TestTheSameInstanceIsTheSameMember starts a service again under its name. The group has
// one member of that name, before and after.
func TestTheSameInstanceIsTheSameMember(t *testing.T) {
	t.Parallel()
	c, r := serve(t), routing()
	admin := kadm.NewClient(client(t, c))
	for _, body := range []string{"first", "second"} {
		b, stop := start(t, kafka.Options{URL: c.url(), Routing: r, Instance: "one"})
		messages, _ := subscribe(t, b, r.Commands)
		publish(t, b, r.Commands, body)
		expect(t, messages, body)
		groups, err := admin.DescribeGroups(t.Context(), "reader."+r.Commands)
		must(t, err)
		for _, g := range groups {
			if len(g.Members) != 1 || g.Members[0].InstanceID == nil || *g.Members[0].InstanceID != "one" {
				t.Errorf("members of %s: %+v", g.Group, g.Members)
			}
		}
		stop()
	}
}
