package rabbitmq_test

import (
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/rabbitmq"
)

// owns has two databases whose ids begin alike claim the commands, each again with
// another broker, as after a restart. Of their long names only the beginning is kept.
func owns(t *testing.T, ready func() *rabbitmq.Broker) {
	t.Helper()
	long := "sqlite /" + strings.Repeat("folder/", 40)
	first := broker.Owner{Database: "9d2c7a52-7fd8-4ad4-b0ad-4a2d36e8b6a1", Broker: "QWERTZUI", Name: long + "first.db"}
	second := broker.Owner{Database: "9d2c7a52-7fd8-4ad4-b0ad-4a2d36e8b6a2", Broker: "ASDFGHJK", Name: long + "second.db"}
	for i, step := range []struct {
		owner    broker.Owner
		takeover bool
		want     broker.Owner
	}{{first, false, first}, {first, false, first}, {second, false, first}, {second, true, second}, {second, false, second}, {first, false, second}} {
		got, err := ready().Claim(t.Context(), "timer-service", step.owner, step.takeover)
		must(t, err)
		if got.Database != step.want.Database || got.Broker != first.Broker || !strings.HasPrefix(step.want.Name, got.Name) {
			t.Errorf("claim %d: the owner is %v, want %v", i, got, step.want)
		}
	}
}

func TestOwnerWithALongName(t *testing.T) {
	t.Parallel()
	r := open(t)
	owns(t, func() *rabbitmq.Broker { return r.ready(r.opt) })
}

func TestOwnerInAVirtualHostWithALongName(t *testing.T) {
	t.Parallel()
	o := serve(t)
	r := o.rabbit()
	in := func(vhost string) *rabbitmq.Broker {
		o.ctl("add_vhost", vhost)
		o.ctl("set_permissions", "-p", vhost, "guest", ".*", ".*", ".*")
		return r.ready(rabbitmq.Options{URL: o.URL() + vhost})
	}
	b := in(strings.Repeat("v", 72))
	owns(t, func() *rabbitmq.Broker { return b })
	mine := broker.Owner{Database: "9d2c7a52-7fd8-4ad4-b0ad-4a2d36e8b6a1", Broker: "QWERTZUI"}
	if _, err := in(strings.Repeat("v", 73)).Claim(t.Context(), "timer-service", mine, false); err == nil || !strings.Contains(err.Error(), "at most 72 bytes") {
		t.Errorf("in a virtual host with a longer name: %v, want an error that names the limit", err)
	}
}
