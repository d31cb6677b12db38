package poison_test

import (
	"slices"
	"strings"
	"testing"
	"time"

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
	conn := w.wires("attacker", 1)[0]
	g := newGunner(1, "topics")
	g.now = time.Now()
	kinds := slices.Concat(bodies, owners)
	for _, to := range subjects {
		aim := func(s shot, reason string) {
			s.kind, s.subject = to.token, "svc."+to.token+".timer"
			s.want.tenant, s.want.reason = to.tenant, reason
			if reason != "" {
				s.want.fate = deadLettered
			}
			harness.Must(t, conn.fire(s))
		}
		for _, k := range kinds {
			s := k.make(g)
			aim(s, s.want.reason)
		}
		for range 5 { // valid ones, of the tenant that the body names
			switch c := g.command(); c.tenant {
			case to.tenant:
				aim(c.good(), "")
			default:
				aim(c.good(), tenantMismatch)
			}
		}
	}
	harness.Must(t, conn.wait(30*time.Second))
	w.settle(conn)
	w.stop()
	j := w.read()
	for _, v := range conn.fired {
		if err := j.check(v); err != nil {
			j.complain(v, err)
		}
	}
	j.rest()
	j.report(nil)
}
