package envelope_test

import (
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

func event(tenant timer.TenantID, call timer.ServiceCallID, command string, due time.Time) timer.DueTimeReached {
	return timer.DueTimeReached{Key: timer.Key{TenantID: tenant, ServiceCallID: call}, CommandID: command, DueAt: due}
}

// The ids were computed by another program: an upgrade of the service must not
// change the id of an event whose first attempt an older version made.
func TestEventIDsNeverChange(t *testing.T) {
	t.Parallel()
	tests := []struct {
		event timer.DueTimeReached
		want  string
	}{
		{goldenReached, "01b977bc-34b4-729f-9d87-c0df30147718"},
		{event("a", "b", "c", time.UnixMilli(0)), "00000000-0000-7b0a-8b92-0d42f074b0a7"},
		{
			event(timer.TenantID(strings.Repeat("A", 64)), timer.ServiceCallID(strings.Repeat("z", 128)), strings.Repeat("~", 128), time.UnixMilli(7289654399999)),
			"06a14142-d3ff-74bb-a249-b85fd4405c9c",
		},
	}
	for _, test := range tests {
		if got := envelope.EventID(test.event); got != test.want {
			t.Errorf("%v due %v: got %s, want %s", test.event.Key, test.event.DueAt, got, test.want)
		}
	}
}

func TestDueAtReadsTheIDOfAnEvent(t *testing.T) {
	t.Parallel()
	for _, due := range []time.Time{goldenDueAt, time.UnixMilli(0).UTC(), time.UnixMilli(1<<48 - 1).UTC()} {
		e := goldenReached
		e.DueAt = due
		if got, ok := envelope.DueAt(envelope.EventID(e)); !ok || !got.Equal(due) {
			t.Errorf("due %v, got %v, %v", due, got, ok)
		}
	}
	for _, id := range []string{
		"", "cmd-1", strings.Repeat("a", 36), "01b977bc-34b4-429f-9d87-c0df30147718", "01b977bg-34b4-729f-9d87-c0df30147718",
		"01b977bc-34bg-729f-9d87-c0df30147718", "+1b977bc-34b4-729f-9d87-c0df30147718", "01b977bc34b4-729f-9d87-c0df301477180",
	} {
		if got, ok := envelope.DueAt(id); ok {
			t.Errorf("%q: got %v", id, got)
		}
	}
}

func TestEventIDIsTheSameAtEveryAttempt(t *testing.T) {
	t.Parallel()
	want := envelope.EventID(goldenReached)
	again := goldenReached
	again.ReachedAt = again.ReachedAt.Add(time.Hour)
	again.CorrelationID = "other"
	again.DueAt = again.DueAt.In(time.FixedZone("CET", 3600)).Add(-time.Nanosecond) // rounded up again
	if got := envelope.EventID(again); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestGenerationsNeverShareAnID(t *testing.T) {
	t.Parallel()
	due := goldenDueAt
	seen := map[string]timer.DueTimeReached{}
	for _, e := range []timer.DueTimeReached{
		event("acme", "sc-1", "c1", due),
		event("acme", "sc-1", "c2", due),                       // another command
		event("acme", "sc-1", "c1", due.Add(time.Millisecond)), // another due time
		event("acme", "sc-2", "c1", due),                       // another call
		event("bcme", "sc-1", "c1", due),                       // another tenant
		event("acmes", "c-1", "c1", due),                       // a byte moves to the next part
		event("acm", "esc-1", "c1", due),
		event("acme", "sc-1c", "1", due),
		event("acme", "sc-", "1c1", due),
		event("", "acme", "sc-1c1", due),
	} {
		id := envelope.EventID(e)
		if other, ok := seen[id]; ok {
			t.Errorf("%v %s and %v %s share %s", e.Key, e.CommandID, other.Key, other.CommandID, id)
		}
		seen[id] = e
	}
}
