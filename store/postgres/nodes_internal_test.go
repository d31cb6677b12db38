package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestNodesFitIntoAName of 63 bytes, and come back out of it.
func TestNodesFitIntoAName(t *testing.T) {
	t.Parallel()
	node := timer.Node{ID: "1a2b3c4d", PID: 12345, Version: "v1.2.3", Host: "timer-service-7d9c6b5f4-x2", Started: noon}
	for _, c := range []struct{ node, want timer.Node }{
		{node, node},
		{timer.Node{ID: "1a2b3c4d", Started: noon}, timer.Node{ID: "1a2b3c4d", Started: noon}},
		{timer.Node{ID: "1a2b3c4d", Version: "(devel)", Host: "n\u00f6rd host", Started: noon}, timer.Node{ID: "1a2b3c4d", Version: "(devel)", Host: "nrdhost", Started: noon}},
		{
			timer.Node{ID: "1a2b3c4d", PID: 4194304, Version: "v0.0.0-20261122-0123456789ab", Host: strings.Repeat("h", 64), Started: noon},
			timer.Node{ID: "1a2b3c4d", PID: 4194304, Version: "v0.0.0-20261122-", Host: "hhhhhhhhhhhhhhhh", Started: noon},
		},
	} {
		name := nodeName(c.node)
		got, ok := parseNode(name)
		if diff := cmp.Diff(c.want, got); !ok || diff != "" || len(name) > maxName {
			t.Errorf("%q of %d bytes (-want +got):\n%s", name, len(name), diff)
		}
	}
	for _, name := range []string{"", "psql", "timer a b c d e", "timer id 1 zzzz! v h", "timer-service", "timer id 1 t9x2k1 v1 h more"} {
		if got, ok := parseNode(name); ok {
			t.Errorf("%q is %+v", name, got)
		}
	}
}

// TestALeaseGivesTheNameBack: a host's connection has its own name again afterwards.
func TestALeaseGivesTheNameBack(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), pgtest.URL(t), Options{Durability: Relaxed, Version: "v7"})
	must(t, err)
	defer s.Close()
	names := func() (n int) {
		must(t, s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1`, nodeName(s.node)).Scan(&n))
		return n
	}
	lease, err := s.Own(t.Context())
	must(t, err)
	if n := names(); n != 1 {
		t.Errorf("%d connections are named for the instance", n)
	}
	nodes, err := s.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || !nodes[0].Self || nodes[0].Version != "v7" || time.Since(nodes[0].Seen).Abs() > time.Minute {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	lease.Release()
	if n := names(); n != 0 {
		t.Errorf("%d connections are named for the instance, which owns nothing", n)
	}
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
}
