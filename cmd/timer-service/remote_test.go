package main

import (
	"regexp"
	"strings"
	"testing"
)

// Variable are parts that differ between two commands, and those that only the broker
// tells: topics, the id of a replay, and when the event arrived here.
var variable = regexp.MustCompile(`(?m)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|20\d\d-[-\d:.TZ]+( \(.*?\))?|\\?"(timestampMs|latenessMs|position)\\?":"?\d+|,"(topic|messageId)":"[^"]*"|,"arrivalDelayMs":\d+|  to timer.commands$|\d+ ms late|  ?([\d.]+ m?s|\d+h\d+m\d+s) late`)

// TestSameAnswerFromServiceAndBroker runs the verbs that send commands or change dead
// letters, through HTTP and at the broker, each on timers of its own.
func TestSameAnswerFromServiceAndBroker(t *testing.T) {
	t.Parallel()
	server, atBroker := answering(t, "TIMER_HORIZON=100d")
	remote := []string{"TIMER_SERVER=" + server, "TIMER_DB_PATH=/nowhere/timers.db"}
	names := strings.NewReplacer("first-", "%-", "other-", "%-")
	both := func(t *testing.T, line string) {
		t.Helper()
		args := func(name string) []string { return strings.Fields(strings.ReplaceAll(line, "%", name)) }
		clean := func(r ran) ran {
			text := func(s string) string {
				return names.Replace(untilNow.ReplaceAllString(variable.ReplaceAllString(counted.ReplaceAllString(s, ""), ""), ""))
			}
			return ran{r.code, text(r.stdout), text(r.stderr)}
		}
		want, got := clean(do(t, atBroker, args("first")...)), clean(do(t, remote, args("other")...))
		if got != want {
			t.Errorf("%q:\nthe service %d: %s%s\nthe broker  %d: %s%s", line, got.code, got.stdout, got.stderr, want.code, want.stdout, want.stderr)
		}
	}
	inForm := func(t *testing.T, form string) {
		t.Parallel()
		for _, line := range []string{
			"schedule acme %-1 --in 1h --correlation %-r --data {\"a\":1.50}", "schedule acme %-2 --in 0 --wait", "schedule acme %-2 --in 0 --wait", "schedule acme %-3 --in 1s --wait --correlation %-s",
			"schedule acme %-4 --in 200d --wait --correlation %-d", "schedule acme %-5 --at 2020-01-01T00:00:00Z --wait", "schedule acme %-6 --in 1h --wait --timeout 0", "schedule acme %-7 --in=-1s",
			"cancel acme %-1 --wait --correlation %-r", "cancel acme %-1 --wait", "cancel acme %-2 --wait", "cancel acme %-none", "cancel acme %-gone --wait",
			"dlq list --correlation %-d", "dlq replay --correlation %-d --dry-run", "dlq discard nothing", "dlq discard --correlation nothing",
		} {
			both(t, strings.ReplaceAll(line, "%-", form[:1]+"%-")+" -o "+form)
		}
	}
	t.Run("forms", func(t *testing.T) { // ends when both have
		t.Run("text", func(t *testing.T) { inForm(t, "text") })
		t.Run("json", func(t *testing.T) { inForm(t, "json") })
	})
	all := listDeadLetters(t, atBroker)
	if ids := listDeadLetters(t, remote); len(all) != 4 || len(ids) != 4 || ids[0]["body"] != all[0]["body"] {
		t.Fatalf("dead letters %v, and through the service %v", all, ids)
	}
	id := all[0]["id"].(string)
	for _, line := range []string{
		"dlq list", "dlq list --limit 2", "dlq list --limit 2 -o json", "dlq list --tenant acme", "dlq list --tenant _", "dlq list --reason beyond_horizon,stale", "dlq list --reason stale",
		"dlq list --since 1h --id " + id, "dlq list --id nothing", "dlq show " + id, "dlq show " + id + " -o json", "dlq show nothing", "stats --dead-letters", "dlq discard --all --dry-run --limit 3",
	} {
		both(t, line)
	}
	both(t, "dlq replay "+"--correlation t%-d --rate 100 -o json")
	both(t, "dlq discard --correlation j%-d")
	both(t, "dlq discard --correlation j%-d")
	if got := do(t, remote, "get", "acme", "tother-1", "--data").wants(t, exitOK).stdout; strings.Contains(got, "Scheduled") {
		t.Errorf("canceled:\n%s", got)
	}
	do(t, remote, "schedule", "acme", "spaced", "--in", "1s", "--data", `{"a" : "<"}`, "--wait").wants(t, exitOK)
	do(t, atBroker, "get", "acme", "spaced", "--data").wants(t, exitOK).prints(t, "\n{\"a\" : \"<\"}\n")
	do(t, remote, "schedule", "--file", "-").wants(t, exitUsage).says(t, "leave out --server")
	do(t, remote, "schedule", "acme", "--in", "1s", "--id", "x").wants(t, exitUsage).says(t, "leave out --server")
}
