package poison_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/verify/crash/history"
	"github.com/event-service-agent/timer-service/verify/internal/harness"
)

// subjects are what a pattern of command topics matches, with the tenant that
// each names.
var subjects = []struct{ token, tenant string }{
	{"acme", "acme"},
	{"ACME", "ACME"},
	{"globex", "globex"},
	{"_", "_"},
	{"-", "_"},
	{"_acme", "_"},
	{"acme!", "_"},
	{"a,b", "_"},
	{"{tenant}", "_"},
	{"$SYS", "_"},
	{"$JS", "_"},
	{"é", "_"},
	{"\u202eacme", "_"},
	{"世界", "_"},
	{"\xff\xfe", "_"},
	{"a\x01b", "_"},
	{`"`, "_"},
	{`\`, "_"},
	{"%2e", "_"},
	{"a/b", "_"},
	{strings.Repeat("t", 64), strings.Repeat("t", 64)},
	{strings.Repeat("t", 65), "_"},
	{strings.Repeat("t", 1_000), "_"},
	{strings.Repeat("t", 3_900), "_"},
}

// Not among them: a subject with the byte 0x7f, which a server stores and never
// delivers to a consumer with a filter (nats-server v2.15.2).

// Where the topic names the tenant, brokers guard it: what the body says then
// puts nothing into the dead letters of another one.
func TestTopicsDecideWhoseDeadLettersAre(t *testing.T) {
	w := begin(t, "svc.*.timer", "TIMER_COMMANDS_TOPIC=svc.{tenant}.timer")
	out := w.dial("attacker", "topics")
	g := newGunner(1, "topics", nil)
	g.now = time.Now()
	var shots []*shot
	sent := make(map[string]bool) // bodies, by which dead letters are known
	for _, to := range subjects {
		aim := func(s shot) {
			if sent[string(s.Body)] {
				return
			}
			sent[string(s.Body)] = true
			if s.Kind != history.Schedule {
				s = spoiled(to.tenant, s.reason, s.Body)
			}
			s.Note, s.subject, s.SentAt = to.token, "svc."+to.token+".timer", g.now
			harness.Must(t, out.fire(&s))
			shots = append(shots, &s)
		}
		for _, k := range slices.Concat(bodies, owners) {
			aim(k.make(g))
		}
		for range 5 { // valid ones, of the tenant that the body names
			if c := g.command(); c.tenant == to.tenant {
				aim(c.good())
			} else {
				aim(c.invalid(tenantMismatch))
			}
		}
	}
	harness.Must(t, out.sync())
	w.settle(shots)
	w.stop()
	w.judge(shots, w.readStream(shots))
}
