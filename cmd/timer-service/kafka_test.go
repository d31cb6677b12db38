package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// The verbs about dead letters and tail work with brokers other than NATS.
func TestDeadLettersOfKafka(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	environ := []string{
		"TIMER_BROKER=kafka", "TIMER_BROKER_URL=" + cluster.ListenAddrs()[0], "TIMER_DB_PATH=" + filepath.Join(t.TempDir(), "timers.db"),
	}
	_, stop := serve(t, append(environ, "TIMER_HORIZON=1h"))
	events := tailing(t, environ, "events", "--tenant", "acme", "-n", "1")
	do(t, environ, "schedule", "beta", "order-0", "--in", "0", "--wait").wants(t, exitOK)
	do(t, environ, "schedule", "acme", "order-0", "--in", "0", "--wait").wants(t, exitOK)
	if got := (<-events).wants(t, exitOK).stdout; !strings.Contains(got, "  service.events  DueTimeReached  acme.order-0  ") {
		t.Errorf("the first event of acme is %s", got)
	}
	for i, c := range []struct{ tenant, call string }{{"acme", "order-1"}, {"acme", "order-1"}, {"beta", "order-1"}} {
		do(t, environ, "schedule", c.tenant, c.call, "--in", fmt.Sprint(i+2, "h"), "--wait").wants(t, exitFailure)
	}
	all := do(t, environ, "tail", "dlq").wants(t, exitUsage)
	if !strings.Contains(all.stderr, "name a tenant with --tenant") {
		t.Errorf("stderr is %q, want what to do", all.stderr)
	}
	stop()
	serve(t, append(environ, "TIMER_HORIZON=9h"))
	if got := listDeadLetters(t, environ); len(got) != 3 {
		t.Fatalf("%d dead letters, want 3: %v", len(got), got)
	}
	do(t, environ, "dlq", "replay", "--tenant", "acme").wants(t, exitOK)
	awaitTimer(t, environ, "order-1")
	remaining := listDeadLetters(t, environ)
	if len(remaining) != 1 || remaining[0]["tenantId"] != "beta" {
		t.Fatalf("dead letters remain: %v", remaining)
	}
	do(t, environ, "dlq", "discard", remaining[0]["id"].(string)).wants(t, exitOK)
	if got := listDeadLetters(t, environ); len(got) != 0 {
		t.Errorf("dead letters remain: %v", got)
	}
}
