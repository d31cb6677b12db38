package admin_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// TestTimesAreThoseOfTheTestClock has a clock that is a week ahead: a duration begins there, and
// what became a dead letter since then is one.
func TestTimesAreThoseOfTheTestClock(t *testing.T) {
	t.Parallel()
	b := channel(t)
	now := time.Now().Add(7 * 24 * time.Hour).UTC().Truncate(time.Millisecond)
	s := admin.New(quiet, admin.Options{Monitor: watched(t), Timers: seeded(t), Broker: b, Clock: app.NewTestClock(now)})
	commands, err := b.Tail().Subscribe(t.Context(), b.Routing().CommandsOf("acme"))
	must(t, err)
	moved := func(how string, in time.Duration) {
		t.Helper()
		m := <-commands
		m.Ack()
		decoded, err := envelope.Decode(m.Payload)
		must(t, err)
		if to := decoded.Payload.(timer.RescheduleTimers).DueAt; !to.Equal(now.Add(in)) {
			t.Errorf("%s: it is due at %v, want %v", how, to, now.Add(in))
		}
	}
	if code, text := do(s, "POST", "/v1/tenants/acme/timers:reschedule?call=order-4&in=1h"); code != 202 {
		t.Fatal(code, text)
	}
	moved("in an hour", time.Hour)
	if code, text := submit(s, "/do/fire", url.Values{"tenant": {"acme"}, "call": {"order-4"}}); code != 200 {
		t.Fatal(code, text)
	}
	moved("fired now", 0)

	refuseAt(t, b, envelope.FormatTime(now.Add(-2*time.Hour)), "acme", "early", "bad_field", `{}`, 0)
	refuseAt(t, b, envelope.FormatTime(now), "acme", "late", "bad_field", `{}`, 0)
	if _, text := get(s, "/v1/dead-letters?tenant=acme&since=1h"); strings.Contains(text, "early") || !strings.Contains(text, "late") {
		t.Errorf("since an hour: %s", text)
	}
	if code, text := do(s, "POST", "/v1/dead-letters:discard?tenant=acme&id=early"); code != 200 {
		t.Error(code, text)
	}
	if _, text := submit(s, "/do/discard", url.Values{"filter": {"tenant=acme"}}); !strings.Contains(text, "1 dead letter discarded") {
		t.Error(text)
	}
}
